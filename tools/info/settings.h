/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of `braid info` on variables of the environment that a job would refuse; what braid's
 * settings refuse is in the topology's part. */
#ifndef BR_TOOLS_INFO_SETTINGS_H
#define BR_TOOLS_INFO_SETTINGS_H

#include <cjson/cJSON.h>

/* Adds "settings" to root: a list of words, one for each fault. */
void br_info_gather_settings(cJSON *root);
void br_info_print_settings(const cJSON *root);

#endif
