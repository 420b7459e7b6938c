/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job's secret, which every rank must know before another rank or the store listens to it.
 *
 *   BRAID_SECRET       the secret itself, any text of at least 16 bytes (`braid run` makes 64
 *                      hexadecimal digits)
 *   BRAID_SECRET_FILE  a file that holds it and that nobody but its owner may read; one final
 *                      newline is ignored
 *   BRAID_INSECURE=1   no secret: anybody who reaches the ports can join the job
 *
 * The job's key is BLAKE2b-256 of the text, keyed with the 16 bytes "braid job secret". It is used
 * for nothing but to derive one key for each purpose (br_secret_subkey()), so that what one purpose
 * shows says nothing about the others.
 *
 * An id (id.h) has a random key in it, which is then the job's: that of braid_config always
 * counts, that of a launcher where no secret is set. It is as secret as the wire that carries it:
 * PMIx and Slurm let only processes of the job's user ask, Hydra's proxies speak plain TCP. With
 * BRAID_SECRET what such a wire shows does not let anybody in.
 *
 * Under torchrun and plain Slurm without a secret, the key comes from MASTER_ADDR, MASTER_PORT and
 * the run's id (of Slurm the step's number). That keeps two jobs apart, but it is an identification
 * and no security: somebody on the network can guess all three. A warning says so once a process.
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_SECRET_H
#define BR_PROTOCOL_BOOTSTRAP_SECRET_H

#include <stddef.h>
#include <stdint.h>

#define BR_SECRET_KEY_BYTES 32
#define BR_SECRET_TEXT_MIN  16
#define BR_SECRET_TEXT_MAX  4096

struct br_environment;

struct br_secret {
    uint8_t key[BR_SECRET_KEY_BYTES];
};

/* Derives the key of a text of any length. Pure. Returns 0, or -EIO with a message when libsodium
 * does not start. */
int br_secret_derive(const void *text, size_t bytes, struct br_secret *out);

/* What the keys of a job are for. doc/wire.md has the label of each and test vectors. */
enum br_secret_purpose {
    BR_SECRET_STORE,     /* proofs between ranks and the store */
    BR_SECRET_LINKS,     /* proofs of the handshake of links */
    BR_SECRET_DISCOVERY, /* proofs in beacons */
    BR_SECRET_REGIONS,   /* the first 8 bytes are braid_key.check, which is no secret */
    BR_SECRET_JOB_NAME,  /* the first 8 bytes go into the name of the job's statistics socket */
};

/* The key of a purpose: BLAKE2b-256 of the purpose's label, keyed with the job's key. Pure; the
 * secret comes from br_secret_derive() or br_secret_read(). The caller wipes what it no longer
 * needs. */
void br_secret_subkey(const struct br_secret *secret, enum br_secret_purpose purpose,
                      uint8_t out[BR_SECRET_KEY_BYTES]);
/* The first 8 bytes of that key as a number, least significant byte first: for what is shown. */
uint64_t br_secret_number(const struct br_secret *secret, enum br_secret_purpose purpose);

/* Reads the secret of this job: `given` (braid_config.secret) if it is not NULL, else as above. A
 * job of one process that has no secret gets a random one; one whose id comes later (id_comes of
 * the environment) and that has no secret gets all zeros, for br_launcher_meet() to replace.
 * Returns 0, or -EINVAL, -EACCES or the errno of the file, with a message that says what to do. May
 * block on the file. */
int br_secret_read(const struct br_environment *environment, const char *given,
                   struct br_secret *out);

/* Overwrites the key; call it when the secret is no longer needed. */
void br_secret_wipe(struct br_secret *secret);

#endif
