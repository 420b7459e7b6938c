/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of `braid info` on the network that the environment asks for: BRAID_TOPOLOGY,
 * BRAID_INVENTORY. */
#ifndef BR_TOOLS_INFO_TOPOLOGY_H
#define BR_TOOLS_INFO_TOPOLOGY_H

#include <cjson/cJSON.h>

/* Adds "topology" to root: {"kind": "mesh"}, {"kind": "bcube", ...}, or {"error": words}. */
void br_info_gather_topology(cJSON *root);
void br_info_print_topology(const cJSON *root);

/* A member of an object of the tree; "" and 0 when there is none. */
static inline const char *br_info_text(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);

    return cJSON_IsString(item) ? item->valuestring : "";
}

static inline double br_info_number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);

    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

#endif
