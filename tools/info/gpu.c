/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/info/info.h"

#include <stdio.h>

#include "base/error.h"
#include "gpu/copier.h"
#include "gpu/inventory.h"
#include "tools/common/format.h"
#include "tools/info/nic_affinity.h"
#include "transport/gpudirect_check.h"

#define NICS      64
#define BY_DMABUF "dma-buf"
#define BY_MODULE "the peer-memory module"

/* near NULL: `text` says why. */
static void info_gpu_add_nics(cJSON *object, struct br_nic_affinity *affinity, const char *pci,
                              const char *text)
{
    cJSON *array = cJSON_AddArrayToObject(object, "nics");
    struct br_nic_affinity_nic nics[NICS];
    int n = affinity ? br_nic_affinity_nics(affinity, pci, nics, NICS) : 0;

    cJSON_AddStringToObject(object, "why_no_nics",
                            !affinity ? text
                            : n < 0   ? br_error_message()
                            : n == 0  ? "hwloc sees none"
                                      : "");
    for (int i = 0; i < n; i++) {
        cJSON *nic = cJSON_CreateObject();

        cJSON_AddStringToObject(nic, "name", nics[i].name);
        cJSON_AddStringToObject(nic, "distance", br_distance_text(nics[i].distance));
        cJSON_AddItemToArray(array, nic);
    }
}

static void gather_nics(cJSON *array)
{
    struct br_nic_affinity *affinity = NULL;
    char text[256] = "";
    cJSON *gpu;

    if (br_nic_affinity_open(&affinity))
        snprintf(text, sizeof text, "%s", br_error_message());
    cJSON_ArrayForEach(gpu, array) info_gpu_add_nics(gpu, affinity, br_info_text(gpu, "pci"), text);
    br_nic_affinity_close(affinity);
}

/* ---- which NICs reach it --------------------------------------------------------------------- */

/* way: as br_gpudirect_check_run() returns it. */
static void add_path(cJSON *array, const char *name, int way)
{
    cJSON *object = cJSON_CreateObject();

    cJSON_AddStringToObject(object, "name", name);
    cJSON_AddStringToObject(object, "by", way < 0 ? "" : way ? BY_MODULE : BY_DMABUF);
    cJSON_AddStringToObject(object, "why_not", way < 0 ? br_error_message() : "");
    cJSON_AddItemToArray(array, object);
}

/* Each RDMA device that can be used. */
static void try_nics(cJSON *array, struct br_gpudirect_check *check)
{
    static struct br_device_info nics[NICS];
    const struct br_transport_ops *ops = br_transport_default(true);
    int n = ops ? ops->probe(nics, NICS) : 0;

    for (int i = 0; i < n; i++) {
        const struct br_device_config config = {.name = nics[i].name};

        if (!nics[i].why_not[0])
            add_path(array, nics[i].name, br_gpudirect_check_run(check, ops, &config));
    }
}

static void gather_gpudirect(cJSON *gpus)
{
    struct br_copier *copier;
    cJSON *gpu;

    if (br_copier_create(&copier))
        return;
    cJSON_ArrayForEach(gpu, gpus)
    {
        int number = (int)br_info_number(gpu, "number") + 1;
        cJSON *array = cJSON_AddArrayToObject(gpu, "reached_by");
        struct br_gpudirect_check *check;

        if (br_copier_open(copier, number) < 0 ||
            br_gpudirect_check_create(copier, number, &check)) {
            add_path(array, "a NIC", -1);
        } else {
            try_nics(array, check);
            br_gpudirect_check_destroy(check);
        }
    }
    br_copier_destroy(copier);
}

static void info_gpu_add_gpu(cJSON *array, int number, const struct br_gpu_info *gpu)
{
    cJSON *object = cJSON_CreateObject();

    cJSON_AddNumberToObject(object, "number", number);
    cJSON_AddStringToObject(object, "name", gpu->name);
    cJSON_AddStringToObject(object, "pci", gpu->pci);
    cJSON_AddNumberToObject(object, "capability", gpu->capability);
    cJSON_AddNumberToObject(object, "numa_node", gpu->numa_node);
    cJSON_AddNumberToObject(object, "bytes", (double)gpu->bytes);
    cJSON_AddBoolToObject(object, "dmabuf", gpu->dmabuf);
    cJSON_AddStringToObject(object, "why_not_shared", gpu->sharing);
    cJSON_AddBoolToObject(object, "usable", !gpu->copies[0]);
    cJSON_AddStringToObject(object, "why_not", gpu->copies);
    cJSON_AddStringToObject(object, "path", "staged through pinned host memory");
    cJSON_AddItemToArray(array, object);
}

void br_info_gather_gpus(cJSON *root)
{
    static struct br_gpu_info gpus[BR_GPUS];
    cJSON *object = cJSON_AddObjectToObject(root, "gpus"),
          *array = cJSON_AddArrayToObject(object, "devices");
    int n = br_gpu_inventory(gpus);
    char text[256];

    cJSON_AddStringToObject(object, "why_none", n < 0 ? br_error_message() : "");
    if (n < 0)
        return;
    for (int i = 0; i < n; i++)
        info_gpu_add_gpu(array, i, &gpus[i]);
    gather_nics(array);
    gather_gpudirect(array);
    cJSON_AddStringToObject(object, "peer_memory", br_gpu_peer_memory("", text));
    cJSON_AddStringToObject(object, "iommu", br_gpu_iommu("", text));
}

static void print_nics(const cJSON *gpu)
{
    const char *separator = "", *why_none = br_info_text(gpu, "why_no_nics");
    const cJSON *nic;

    printf("      NICs: %s", why_none);
    cJSON_ArrayForEach(nic, cJSON_GetObjectItem(gpu, "nics"))
    {
        printf("%s%s (%s)", separator, br_info_text(nic, "name"), br_info_text(nic, "distance"));
        separator = ", ";
    }
    printf("\n");
}

static void print_gpudirect(const cJSON *gpu)
{
    const cJSON *nic;

    cJSON_ArrayForEach(nic, cJSON_GetObjectItem(gpu, "reached_by"))
    {
        const char *why_not = br_info_text(nic, "why_not");

        if (why_not[0])
            printf("      %s does not reach it: %s\n", br_info_text(nic, "name"), why_not);
        else
            printf(
                "      %s reaches it by %s: messages, put, get and collectives need no staging\n",
                br_info_text(nic, "name"), br_info_text(nic, "by"));
    }
}

static void print_gpu(const cJSON *gpu)
{
    const char *why_not_shared = br_info_text(gpu, "why_not_shared");
    char size[BR_FORMAT_BYTES];

    printf("  %-3.0f %s, %s, PCI %s, sm_%.0f", br_info_number(gpu, "number"),
           br_info_text(gpu, "name"), br_format_bytes(size, br_info_number(gpu, "bytes")),
           br_info_text(gpu, "pci"), br_info_number(gpu, "capability"));
    if (br_info_number(gpu, "numa_node") >= 0)
        printf(", NUMA node %.0f", br_info_number(gpu, "numa_node"));
    printf("\n      %s; dma-buf: %s\n", br_info_text(gpu, "path"),
           cJSON_IsTrue(cJSON_GetObjectItem(gpu, "dmabuf")) ? "yes" : "the driver gives none");
    printf("      shared with other processes of this host: %s\n",
           why_not_shared[0] ? why_not_shared : "yes, for all-reduce");
    if (br_info_text(gpu, "why_not")[0])
        printf("      not usable: %s\n", br_info_text(gpu, "why_not"));
    print_nics(gpu);
    print_gpudirect(gpu);
}

void br_info_print_gpus(const cJSON *root)
{
    const cJSON *gpus = cJSON_GetObjectItem(root, "gpus"), *gpu;

    printf("GPUs\n");
    if (br_info_text(gpus, "why_none")[0])
        printf("  none: %s\n", br_info_text(gpus, "why_none"));
    cJSON_ArrayForEach(gpu, cJSON_GetObjectItem(gpus, "devices"))
    {
        print_gpu(gpu);
    }
    if (br_info_text(gpus, "peer_memory")[0])
        printf("  %s\n", br_info_text(gpus, "peer_memory"));
    if (br_info_text(gpus, "iommu")[0])
        printf("  %s\n", br_info_text(gpus, "iommu"));
    printf("\n");
}
