/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of `braid info`: each gathers what it finds into the JSON object `root`, and prints it
 * from there. A part never fails: what cannot be found out is left out, or is an error text in its
 * object. */
#ifndef BR_TOOLS_INFO_INFO_H
#define BR_TOOLS_INFO_INFO_H

#include <cjson/cJSON.h>

/* Adds "gpus". */
void br_info_gather_gpus(cJSON *root);
void br_info_print_gpus(const cJSON *root);

/* Adds "launcher": which one has started this process ("name"), the variable that shows it
 * ("sign"), the names of others that are there as well ("also"), and what it says: "rank", "size",
 * "local_rank" and "local_size" where it knows them, and how the ranks would find each other
 * ("meeting"); or "error". A launcher whose variables do not say the size is asked. */
void br_info_gather_launcher(cJSON *root);
void br_info_print_launcher(const cJSON *root);

/* Adds "rdma": the ports, their GIDs, why one cannot be used, and the command that remedies it:
 * {"diagnoses": [{"what", "remedy"}], "ports": [...]}, or {"error": message}. */
void br_info_gather_rdma(cJSON *root);
void br_info_print_rdma(const cJSON *root);

/* Adds "settings": a list of messages, one for each environment variable that a job would refuse.
 * Those of the topology are in its own part. */
void br_info_gather_settings(cJSON *root);
void br_info_print_settings(const cJSON *root);

/* Returns how many devices a rank of a job between hosts would give a thread of their own
 * (BRAID_WORKERS), among the `*devices` that it would use. As far as it can be known without a job:
 * the devices of the kernel's sockets, all cores of the host for this rank. */
int br_info_threads(int *devices);

/* Adds "topology", what BRAID_TOPOLOGY and BRAID_INVENTORY describe: {"kind": "mesh"},
 * {"kind": "bcube", ...}, or {"error": message}. */
void br_info_gather_topology(cJSON *root);
void br_info_print_topology(const cJSON *root);

/* Adds "bindings": {"python": {"built", "version", "folder", "why_not"}, "torch": {...}}. */
void br_info_gather_bindings(cJSON *root);
void br_info_print_bindings(const cJSON *root);

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
