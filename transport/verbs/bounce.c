/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/bounce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"

#define UNIT  ((size_t)16 << 10)
#define LEAST ((size_t)1 << 20)

void br_verbs_bounce_init(struct br_verbs_bounce *bounce, struct br_verbs_registrar *registrar,
                          enum br_verbs_access access, size_t bytes)
{
    memset(bounce, 0, sizeof *bounce);
    bounce->registrar = registrar;
    bounce->access = access;
    bounce->wanted = bytes < LEAST ? LEAST : bytes / UNIT * UNIT;
}

static int map_and_pin(struct br_verbs_bounce *bounce, size_t bytes)
{
    int rc;

    bounce->arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bounce->arena == MAP_FAILED) {
        bounce->arena = NULL;
        return br_error(ENOMEM, "%s: no memory for %zu bytes of buffers", bounce->registrar->name,
                        bytes);
    }
    rc = br_verbs_pin(bounce->registrar, bounce->arena, bytes, bounce->access, &bounce->mr);
    if (rc) {
        munmap(bounce->arena, bytes);
        bounce->arena = NULL;
        return rc;
    }
    bounce->bytes = bytes;
    return 0;
}

/* The first need. */
static int bounce_make(struct br_verbs_bounce *bounce)
{
    size_t bytes = bounce->wanted;
    int rc = map_and_pin(bounce, bytes);

    while (rc == -ENOMEM && bytes / 2 >= LEAST) {
        bytes = bytes / 2 / UNIT * UNIT;
        rc = map_and_pin(bounce, bytes);
    }
    if (rc)
        return rc;
    bounce->units = (uint32_t)(bytes / UNIT);
    bounce->lengths = calloc(bounce->units, sizeof *bounce->lengths);
    if (!bounce->lengths) {
        br_verbs_bounce_destroy(bounce);
        return br_error(ENOMEM, "%s: no memory for buffers", bounce->registrar->name);
    }
    br_downgrade(bounce);
    br_log_warn("%s: memory that is not registered is %s through %zu pinned bytes, with a copy%s. "
                "braid_alloc() and "
                "braid_register() avoid it",
                bounce->registrar->name,
                bounce->access == BR_VERBS_ACCESS_LOCAL ? "sent" : "received", bytes,
                bytes < bounce->wanted ? " (the limit of locked memory allows no more: `ulimit -l`)"
                                       : "");
    return 0;
}

void br_verbs_bounce_destroy(struct br_verbs_bounce *bounce)
{
    if (bounce->arena && br_verbs_unpin(bounce->registrar, bounce->mr))
        munmap(bounce->arena, bounce->bytes);
    free(bounce->lengths);
    bounce->arena = NULL;
    bounce->mr = NULL;
    bounce->lengths = NULL;
    bounce->bytes = 0;
    bounce->units = 0;
}

int br_verbs_bounce_get(struct br_verbs_bounce *bounce, size_t bytes, void **memory)
{
    uint32_t need = (uint32_t)((bytes + UNIT - 1) / UNIT), run = 0, i = 0;
    int rc = bounce->mr ? 0 : bounce_make(bounce);

    if (rc)
        return rc;
    if (bytes > bounce->bytes)
        return br_error(
            ENOMEM,
            "%s: %zu bytes that are not registered do not fit into %zu bytes of pinned buffers: "
            "braid_register() them, or raise the limit of locked memory (`ulimit -l`)",
            bounce->registrar->name, bytes, bounce->bytes);
    while (i < bounce->units && run < need) {
        run = bounce->lengths[i] ? 0 : run + 1;
        i += bounce->lengths[i] ? bounce->lengths[i] : 1;
    }
    if (run < need)
        return -EAGAIN;
    bounce->lengths[i - need] = need;
    *memory = bounce->arena + (size_t)(i - need) * UNIT;
    return 0;
}

void br_verbs_bounce_put(struct br_verbs_bounce *bounce, void *memory)
{
    bounce->lengths[(size_t)((uint8_t *)memory - bounce->arena) / UNIT] = 0;
}
