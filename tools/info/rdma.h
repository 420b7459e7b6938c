/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of `braid info` on RDMA: ports, their GIDs, why one cannot be used, and the command that
 * mends it. */
#ifndef BR_TOOLS_INFO_RDMA_H
#define BR_TOOLS_INFO_RDMA_H

#include <cjson/cJSON.h>

/* Adds "rdma" to root: {"troubles": [{"what", "mend"}], "ports": [...]}, or {"error": words}. */
void br_info_gather_rdma(cJSON *root);
void br_info_print_rdma(const cJSON *root);

#endif
