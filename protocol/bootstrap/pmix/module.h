/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The border between braid and PMIx: what braid_pmix.so does, which is linked with libpmix and is
 * loaded when a process finds that a launcher with PMIx has started it. So libbraid.so needs
 * neither libpmix nor its headers, and processes of other launchers never load it.
 *
 * 1. Every call of PMIx is made in a thread of its own, for which the caller waits until its
 *    time-out: PMIx_Init(), PMIx_Fence() and PMIx_Get() may wait for ever for a rank or a server
 *    that never answers, and the attribute PMIX_TIMEOUT is optional for servers. A call that does
 *    not come back keeps its thread; all later calls then end by their time-outs.
 * 2. PMIx_Init() counts its callers: MPI_Init(), before or after ours, is served as usual. The
 *    opposite does not hold: once the last user has called PMIx_Finalize(), libpmix 4.2 has
 *    forgotten the facts of this rank, and an MPI_Init() after that fails. Therefore this process
 *    stays connected until it exits. It must leave then, as Open MPI's mpirun calls a process that
 *    ends without PMIx_Finalize() an abnormal end; a process that ends by _exit() is one.
 * 3. The ranks meet in PMIx_Fence() with PMIX_COLLECT_DATA, which carries what rank 0 has put to
 *    all nodes. A rank that asks by PMIx_Get() alone, without a fence, would need servers that ask
 *    each other (direct modex), which not all do.
 *
 * Specification: PMIx Standard 4.1, chapters 5 (PMIx_Init), 6 (PMIx_Get), 8 (PMIx_Put, PMIx_Commit,
 * PMIx_Fence).
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_PMIX_MODULE_H
#define BR_PROTOCOL_BOOTSTRAP_PMIX_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BR_PMIX_MODULE  "braid_pmix.so"
#define BR_PMIX_SYMBOL  "br_pmix_module"
#define BR_PMIX_VERSION 1u  /* of this header */
#define BR_PMIX_MESSAGE 400 /* bytes of an error in words */
#define BR_PMIX_BYTES   256 /* that one share() carries, at most */

/* Who this process is among those of its PMIx namespace, which is one mpirun or one step of srun.
 */
struct br_pmix_place {
    uint32_t rank, size;
    uint32_t local_rank, local_size; /* on this node; 0 and 1 where local_known is false */
    bool local_known;                /* the server knows both */
};

/*
 * Both functions return 0 or a negative errno with a message[BR_PMIX_MESSAGE]: -ETIMEDOUT when the
 * time-out (ns from now) has passed, -ECONNREFUSED when there is no server, -ECONNRESET when it has
 * gone, -EPROTO when it does not know what it has to know, -EIO for other errors of PMIx, -ENOMEM.
 * They may be called from any thread; one call at a time works, others wait for it within their
 * time-outs.
 */
struct br_pmix_module {
    uint32_t version; /* BR_PMIX_VERSION */
    /* Connects to the server, if this process is not connected yet, and fills in *out. Asks the
     * server only once in a process. */
    int (*place)(uint64_t timeout, struct br_pmix_place *out, char *text);
    /* Carries n bytes (n <= BR_PMIX_BYTES) from rank 0 to all other ranks of the namespace, which
     * receive them in `bytes`. Collective: each rank makes the same number of calls. */
    int (*share)(void *bytes, size_t n, uint64_t timeout, char *text);
};

#endif
