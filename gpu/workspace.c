/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/workspace.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "gpu/copier.h"
#include "gpu/direct.h"

#define GRANULES (BR_WORKSPACE_BYTES / BR_WORKSPACE_GRANULE)

struct br_workspace {
    struct br_copier *copier;
    struct br_direct_memory memory;
    bool taken[GRANULES];
};

int br_workspace_create(struct br_copier *copier, int gpu, struct br_workspace **out)
{
    struct br_workspace *workspace = calloc(1, sizeof *workspace);
    int rc;

    if (!workspace)
        return br_error(ENOMEM, "no memory for a workspace on a GPU");
    workspace->copier = copier;
    rc = br_direct_allocate(gpu, BR_WORKSPACE_BYTES, &workspace->memory);
    if (rc)
        free(workspace);
    else
        *out = workspace;
    return rc;
}

void br_workspace_destroy(struct br_workspace *workspace)
{
    if (workspace && !br_copier_is_lost(workspace->copier, workspace->memory.gpu))
        br_direct_free(&workspace->memory);
    free(workspace);
}

void *br_workspace_memory(const struct br_workspace *workspace)
{
    return workspace->memory.base;
}

static size_t workspace_granules(size_t bytes)
{
    return (bytes + BR_WORKSPACE_GRANULE - 1) / BR_WORKSPACE_GRANULE;
}

void *br_workspace_take(struct br_workspace *workspace, size_t bytes)
{
    size_t wanted = workspace_granules(bytes), free_ones = 0;

    for (size_t i = 0; i < GRANULES; i++) {
        free_ones = workspace->taken[i] ? 0 : free_ones + 1;
        if (free_ones < wanted)
            continue;
        memset(&workspace->taken[i + 1 - wanted], true, wanted);
        return (uint8_t *)workspace->memory.base + (i + 1 - wanted) * BR_WORKSPACE_GRANULE;
    }
    return NULL;
}

void br_workspace_put(struct br_workspace *workspace, void *memory, size_t bytes)
{
    size_t first =
        (size_t)((uint8_t *)memory - (uint8_t *)workspace->memory.base) / BR_WORKSPACE_GRANULE;

    memset(&workspace->taken[first], false, workspace_granules(bytes));
}
