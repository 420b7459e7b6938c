/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/secret.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/launcher.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static_assert(BR_SECRET_KEY_BYTES == crypto_generichash_KEYBYTES,
              "the key is used as a BLAKE2b key");

/* without its final zero exactly the 16 bytes of a key */
static const char domain[] = "braid job secret";
static_assert(sizeof domain - 1 >= crypto_generichash_KEYBYTES_MIN, "libsodium's shortest key");

int br_secret_derive(const void *text, size_t bytes, struct br_secret *out)
{
    if (sodium_init() < 0)
        return br_error(EIO, "libsodium does not start: the system has no random numbers");
    crypto_generichash(out->key, sizeof out->key, text, bytes, (const unsigned char *)domain,
                       sizeof domain - 1);
    return 0;
}

void br_secret_subkey(const struct br_secret *secret, enum br_secret_purpose purpose,
                      uint8_t out[BR_SECRET_KEY_BYTES])
{
    static const char *const labels[] = {
        [BR_SECRET_STORE] = "braid store key",      [BR_SECRET_LINKS] = "braid link key",
        [BR_SECRET_DISCOVERY] = "braid beacon key", [BR_SECRET_REGIONS] = "braid region key",
        [BR_SECRET_JOB_NAME] = "braid job name",
    };
    const char *label = labels[purpose];

    crypto_generichash(out, BR_SECRET_KEY_BYTES, (const unsigned char *)label, strlen(label),
                       secret->key, sizeof secret->key);
}

uint64_t br_secret_number(const struct br_secret *secret, enum br_secret_purpose purpose)
{
    uint8_t key[BR_SECRET_KEY_BYTES];
    uint64_t number;

    br_secret_subkey(secret, purpose, key);
    memcpy(&number, key, sizeof number); /* little-endian machines only (transport/frame.h) */
    sodium_memzero(key, sizeof key);
    return number;
}

void br_secret_wipe(struct br_secret *secret)
{
    sodium_memzero(secret, sizeof *secret);
}

static int derive_checked(const char *from, const void *text, size_t bytes, struct br_secret *out)
{
    if (bytes < BR_SECRET_TEXT_MIN)
        return br_error(EINVAL,
                        "%s: the job's secret has %zu bytes, at least %d are needed: make one with "
                        "`openssl rand -hex 32`",
                        from, bytes, BR_SECRET_TEXT_MIN);
    return br_secret_derive(text, bytes, out);
}

/* Nobody else may know the secret, so nobody else may be able to read the file. */
static int secret_check_file(const char *path, const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return br_error(EINVAL, "BRAID_SECRET_FILE=%.80s is not a plain file", path);
    if (st->st_mode & (S_IRWXG | S_IRWXO))
        return br_error(EACCES,
                        "BRAID_SECRET_FILE=%.80s has mode %03o, others may use it: chmod 600 %.80s",
                        path, st->st_mode & 0777u, path);
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return br_error(EACCES,
                        "BRAID_SECRET_FILE=%.80s belongs to user %u, not to us (%u) or root", path,
                        (unsigned)st->st_uid, (unsigned)geteuid());
    if (st->st_size > BR_SECRET_TEXT_MAX)
        return br_error(EINVAL, "BRAID_SECRET_FILE=%.80s has more than %d bytes", path,
                        BR_SECRET_TEXT_MAX);
    return 0;
}

static int secret_read_all(int fd, const char *path, char *text, size_t *bytes)
{
    *bytes = 0;
    for (;;) {
        ssize_t n = read(fd, text + *bytes, BR_SECRET_TEXT_MAX - *bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return br_error(errno, "BRAID_SECRET_FILE=%.80s: %s", path, strerror(errno));
        if (n == 0)
            return 0;
        *bytes += (size_t)n;
    }
}

static int secret_read_file(const char *path, struct br_secret *out)
{
    char text[BR_SECRET_TEXT_MAX];
    struct stat st;
    size_t bytes;
    int rc, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return br_error(errno, "BRAID_SECRET_FILE=%.80s: %s", path, strerror(errno));
    rc = fstat(fd, &st) < 0 ? br_error(errno, "BRAID_SECRET_FILE=%.80s: %s", path, strerror(errno))
                            : secret_check_file(path, &st);
    if (rc == 0)
        rc = secret_read_all(fd, path, text, &bytes);
    close(fd);
    if (rc == 0) {
        if (bytes && text[bytes - 1] == '\n')
            bytes--;
        rc = derive_checked("BRAID_SECRET_FILE", text, bytes, out);
    }
    sodium_memzero(text, sizeof text);
    return rc;
}

static void warn_once(const char *text)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&warned))
        br_log_warn("%s", text);
}

/* The job is known by where it is and by its number alone. */
static int derive_run(const struct br_environment *environment, struct br_secret *out)
{
    const char *launcher = environment->torchrun ? "torchrun" : environment->launcher->name;
    char text[sizeof environment->address + sizeof environment->run_id + 32];
    int n = snprintf(text, sizeof text, "%s %s:%u %s", launcher, environment->address,
                     environment->port, environment->run_id);

    if (environment->rank == 0)
        warn_once(
            "no BRAID_SECRET under torchrun or plain Slurm: the job is identified by the address "
            "and port of rank 0 and the run's or step's number, which is no protection against "
            "others on the network; set BRAID_SECRET or BRAID_SECRET_FILE, or start it by PMIx "
            "or PMI (srun --mpi=pmix or pmi2), which carry a secret");
    return br_secret_derive(text, (size_t)n, out);
}

int br_secret_read(const struct br_environment *environment, const char *given,
                   struct br_secret *out)
{
    const char *text = getenv("BRAID_SECRET"), *path = getenv("BRAID_SECRET_FILE");
    int64_t insecure;
    int rc = br_env_number("BRAID_INSECURE", 0, 1, 0, &insecure);

    if (rc < 0)
        return rc;
    memset(out, 0, sizeof *out);
    if (given)
        return derive_checked("braid_config: secret", given, strlen(given), out);
    if (environment->has_id) {
        *out = environment->id.secret;
        return 0;
    }
    if (text && *text && path && *path)
        return br_error(EINVAL,
                        "BRAID_SECRET and BRAID_SECRET_FILE are both set: unset one of them");
    if (text && *text)
        return derive_checked("BRAID_SECRET", text, strlen(text), out);
    if (path && *path)
        return secret_read_file(path, out);
    if (environment->id_comes)
        return 0;
    if (insecure) {
        warn_once("BRAID_INSECURE=1: whoever reaches the ports of this job can join it");
        return br_secret_derive("", 0, out);
    }
    if (environment->size == 1) {
        unsigned char random[BR_SECRET_KEY_BYTES];

        if (sodium_init() < 0)
            return br_error(EIO, "libsodium does not start: the system has no random numbers");
        randombytes_buf(random, sizeof random);
        return br_secret_derive(random, sizeof random, out);
    }
    if (environment->torchrun || environment->run_id[0])
        return derive_run(environment, out);
    return br_error(
        EINVAL,
        "the job has no secret: start it with `braid run`, or give all %u processes the same "
        "BRAID_SECRET (`openssl rand -hex 32`) or BRAID_SECRET_FILE, or set BRAID_INSECURE=1",
        environment->size);
}
