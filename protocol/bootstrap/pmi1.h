/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMI version 1, the wire protocol by which processes speak with MPICH's and Intel MPI's Hydra,
 * with MVAPICH's launchers, with Slurm's `srun --mpi=pmi2` (which speaks version 1 as well) and
 * with Flux: lines of "key=value" separated by blanks, the first key is "cmd". The process asks,
 * the launcher answers, one at a time. After MPICH's src/pmi/maint/pmi-1.1.txt.
 *
 *   cmd=init pmi_version=1 pmi_subversion=1   cmd=response_to_init rc=0 pmi_version=1 ...
 *   cmd=get_maxes                             cmd=maxes kvsname_max=256 keylen_max=64
 * vallen_max=1024 cmd=get_my_kvsname                        cmd=my_kvsname kvsname=NAME cmd=put
 * kvsname=NAME key=K value=V        cmd=put_result rc=0            rank 0 only cmd=barrier_in
 * cmd=barrier_out                all cmd=get kvsname=NAME key=K                cmd=get_result rc=0
 * value=V    all but rank 0 cmd=finalize                              cmd=finalize_ack
 *
 * The launcher hands over a connected socket (PMI_FD), or the address of a port (PMI_PORT, with
 * PMI_ID); over the latter "cmd=initack pmiid=N" comes first, which is answered by four lines:
 * cmd=initack, cmd=set size=N, cmd=set rank=N, cmd=set debug=N.
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_PMI1_H
#define BR_PROTOCOL_BOOTSTRAP_PMI1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BR_PMI1_LINE 2048 /* bytes of a line at most, its end included */
#define BR_PMI1_NAME 512  /* bytes of the name of a space of keys, the final zero included */

/* A conversation. The fields are private. */
struct br_pmi1 {
    int fd;
    size_t used;           /* bytes in `in`, of which the first line may be whole */
    char in[BR_PMI1_LINE]; /* received, from the start of a line on */
    char name[BR_PMI1_NAME];
    size_t value_max;
};

/* Copies the value of a key of a line (without its end) into out, with a final zero. Returns
 * whether there is one that fits. Pure. */
bool br_pmi1_value(const char *line, const char *key, char *out, size_t bytes);

/* All of the following end by the deadline (ns of br_clock_now()), come one after the other, and
 * return 0 or a negative errno with a message: -ETIMEDOUT, -ECONNRESET (the launcher has closed the
 * connection), -EPROTO (it answers something else, or that it failed). */

/* Makes a conversation over fd, which stays the caller's. */
void br_pmi1_make(struct br_pmi1 *pmi, int fd);
/* Over a port: says which process this is, and hears its rank and the size. */
int br_pmi1_introduce(struct br_pmi1 *pmi, int id, uint32_t *rank, uint32_t *size,
                      uint64_t deadline);
int br_pmi1_begin(struct br_pmi1 *pmi, uint64_t deadline);
/* Rank 0's bytes become everybody's. Collective over all processes of the launcher. */
int br_pmi1_share(struct br_pmi1 *pmi, bool gives, const char *key, void *bytes, size_t n,
                  uint64_t deadline);
int br_pmi1_end(struct br_pmi1 *pmi, uint64_t deadline);

#endif
