/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of `braid info` about GPUs. */
#ifndef BR_TOOLS_INFO_GPU_H
#define BR_TOOLS_INFO_GPU_H

#include <cjson/cJSON.h>

void br_info_gather_gpus(cJSON *root);
void br_info_print_gpus(const cJSON *root);

#endif
