/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/inventory.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "gpu/copier.h"
#include "gpu/driver.h"
#include "gpu/ipc.h"

#define TRIAL 4096 /* bytes */

static int gpu_survey_attribute(const struct br_cuda *cuda, unsigned int which, int device,
                                int fallback)
{
    int value;

    return cuda->device_attribute(&value, which, device) == BR_CUDA_SUCCESS ? value : fallback;
}

/* A domain of sysfs has four digits, and its letters are small. */
static void gpu_survey_read_pci(const struct br_cuda *cuda, int device, char out[32])
{
    char text[32] = "";
    unsigned int domain, bus, slot;

    if (cuda->device_pci(text, sizeof text, device) != BR_CUDA_SUCCESS ||
        sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return;
    snprintf(out, 32, "%04x:%02x:%02x.0", domain, bus, slot);
}

static int numa_of(const char *pci)
{
    char path[96];
    int node = -1;
    FILE *file;

    snprintf(path, sizeof path, "/sys/bus/pci/devices/%.20s/numa_node", pci);
    file = fopen(path, "r");
    if (file && fscanf(file, "%d", &node) != 1)
        node = -1;
    if (file)
        fclose(file);
    return node;
}

/* A handle of some memory; whether another process can map it, only that can tell. */
static void try_sharing(const struct br_cuda *cuda, int device, char text[256])
{
    struct CUctx_st *context;
    struct br_ipc_note note;
    br_cuda_pointer memory;
    br_cuda_result result;
    int rc = br_cuda_context(device, &context);

    if (!rc)
        rc = br_cuda_enter(cuda, context);
    if (!rc) {
        result = cuda->memory_alloc(&memory, TRIAL);
        rc = result == BR_CUDA_SUCCESS
                 ? br_ipc_note(NULL, device + 1, (void *)(uintptr_t)memory, TRIAL, &note, NULL)
                 : br_cuda_error(cuda, result, "%d bytes", TRIAL);
        if (result == BR_CUDA_SUCCESS)
            cuda->memory_free(memory);
        br_cuda_leave(cuda);
    }
    if (rc)
        snprintf(text, 256, "%.255s", br_error_message());
}

int br_gpu_inventory(struct br_gpu_info *out)
{
    const struct br_cuda *cuda;
    struct br_copier *copier;
    int n = 0, rc = br_cuda_driver(&cuda);

    if (!rc)
        rc = br_copier_create(&copier);
    if (rc)
        return rc;
    cuda->device_count(&n);
    n = n > BR_GPUS ? BR_GPUS : n;
    for (int i = 0; i < n; i++) {
        struct br_gpu_info *gpu = &out[i];
        size_t bytes = 0;

        memset(gpu, 0, sizeof *gpu);
        cuda->device_name(gpu->name, sizeof gpu->name, i);
        cuda->device_bytes(&bytes, i);
        gpu_survey_read_pci(cuda, i, gpu->pci);
        gpu->bytes = bytes;
        gpu->numa_node = numa_of(gpu->pci);
        gpu->capability = 10 * gpu_survey_attribute(cuda, BR_CUDA_CAPABILITY_MAJOR, i, 0) +
                          gpu_survey_attribute(cuda, BR_CUDA_CAPABILITY_MINOR, i, 0);
        gpu->dmabuf = cuda->range_handle && gpu_survey_attribute(cuda, BR_CUDA_HAS_DMABUF, i, 0);
        if (br_copier_open(copier, i + 1) < 0)
            snprintf(gpu->copies, sizeof gpu->copies, "%.255s", br_error_message());
        try_sharing(cuda, i, gpu->sharing);
    }
    br_copier_destroy(copier);
    return n;
}

const char *br_gpu_peer_memory(const char *root, char out[256])
{
    static const char *const modules[] = {"nvidia_peermem", "nv_peer_mem"};
    char path[256];

    out[0] = 0;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        snprintf(path, sizeof path, "%.200s/sys/module/%s", root, modules[i]);
        if (access(path, F_OK) == 0)
            return out;
    }
    snprintf(out, 256, "the module nvidia_peermem is not loaded: modprobe nvidia_peermem");
    return out;
}

const char *br_gpu_iommu(const char *root, char out[256])
{
    char path[300], type[32] = "";
    struct dirent *entry;
    DIR *groups;
    int translated = 0;

    out[0] = 0;
    snprintf(path, sizeof path, "%.200s/sys/kernel/iommu_groups", root);
    groups = opendir(path);
    while (groups && (entry = readdir(groups))) {
        FILE *file;

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof path, "%.200s/sys/kernel/iommu_groups/%.20s/type", root,
                 entry->d_name);
        file = fopen(path, "r");
        if (!file)
            continue;
        if (fscanf(file, "%31s", type) == 1 && strncmp(type, "DMA", 3) == 0)
            translated++;
        fclose(file);
    }
    if (groups)
        closedir(groups);
    if (translated)
        snprintf(
            out, 256,
            "the IOMMU translates (%d groups): traffic between NIC and GPU goes through the root "
            "complex; boot with "
            "iommu=pt, and turn ACS off in the BIOS or with setpci",
            translated);
    return out;
}
