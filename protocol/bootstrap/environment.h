/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who this process is in its job, from the environment: torchrun's variables, each of which a
 * variable of braid overrides.
 *
 *   BRAID_RANK             RANK               this process, 0..size-1
 *   BRAID_WORLD_SIZE       WORLD_SIZE         processes in the job; unset: one, without a store
 *   BRAID_LOCAL_RANK       LOCAL_RANK         this process on its host
 *   BRAID_LOCAL_WORLD_SIZE LOCAL_WORLD_SIZE   processes on this host
 *   BRAID_MASTER_ADDR      MASTER_ADDR        host of rank 0: a name, an IPv4 or an IPv6 address
 *   BRAID_PORT             MASTER_PORT        port of rank 0's store
 *   BRAID_INIT_TIMEOUT     -                  seconds to wait for all ranks, default 60
 *
 * Under torchrun (TORCHELASTIC_RUN_ID is set) MASTER_PORT belongs to PyTorch: to torchrun's agent
 * while TORCHELASTIC_USE_AGENT_STORE is True, else to the process with rank 0 that calls
 * init_process_group(). The store of braid then listens on MASTER_PORT + 1, unless BRAID_PORT names
 * a port.
 *
 * Where none of WORLD_SIZE and RANK is set, another launcher may say who this process is
 * (launcher.h). The size and rank of a braid_config override all launchers; LOCAL_RANK and
 * LOCAL_WORLD_SIZE then count only if they fit that size.
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_ENVIRONMENT_H
#define BR_PROTOCOL_BOOTSTRAP_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/bootstrap/id.h"

#define BR_ENVIRONMENT_SIZE_MAX    65536 /* ranks in a job */
#define BR_ENVIRONMENT_ADDRESS_MAX 256   /* bytes of MASTER_ADDR, final zero included */

struct braid_config;
struct br_launcher;

struct br_environment {
    uint32_t rank, size;
    uint32_t local_rank, local_size; /* 0 and 1 when the launcher does not say */
    bool local_known;                /* the launcher said local_rank and local_size */
    /* NULL: the caller gave size and rank, or there is no launcher and one process */
    const struct br_launcher *launcher;
    const char *sign; /* the variable that shows the launcher, static; "": none */
    bool torchrun;    /* TORCHELASTIC_RUN_ID is set */
    /* 0 when size is 1; while the id has not come, the one that rank 0 shall listen on, 0: any */
    uint16_t port;
    uint64_t init_timeout;  /* ns */
    uint64_t init_deadline; /* init_timeout from br_environment_read() on; ns of br_clock_now() */
    /* All talk with the launcher ends by then: an eighth of the time, at most 2 s, before
     * init_deadline, so that the store can still say who is missing. */
    uint64_t launcher_deadline;
    /* The id of braid_config, or of rank 0 as the launcher carried it (br_launcher_meet()): where
     * the store is and what the secret is. Then address is "". */
    bool has_id, id_comes; /* it is known; the launcher will carry it */
    struct br_id id;
    char address[BR_ENVIRONMENT_ADDRESS_MAX]; /* "" when size is 1 and none is set */
    char run_id[128]; /* torchrun's TORCHELASTIC_RUN_ID, Slurm's step, else "" */
};

/* Fills *out from the environment. What is set in config (size and rank, id, master_addr,
 * master_port, init_timeout_ms) overrides it; config may be NULL. Returns 0, or -EINVAL with a
 * message that names the variable or field, its value and what to do. No other thread may call
 * setenv() meanwhile. */
int br_environment_read(const struct braid_config *config, struct br_environment *out);

#endif
