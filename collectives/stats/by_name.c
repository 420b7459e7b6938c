/* SPDX-License-Identifier: BSD-3-Clause */
/* braid_stats_get() and braid_stats_name(): counters by the names of their fields. */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/process.h"
#include "collectives/comm/comm.h"
#include "collectives/stats/snapshot.h"

static int take_rank(struct braid_comm *comm, void *out, int max)
{
    int rc = max > 0 ? braid_stats(comm, out) : 0;

    return rc ? rc : 1;
}

static int take_peer(struct braid_comm *comm, void *out, int max)
{
    return braid_peer_stats(comm, out, max);
}

static int take_rail(struct braid_comm *comm, void *out, int max)
{
    return braid_rail_stats(comm, out, max);
}

/* What a name may be of: its counters, and the numbers that say which element it is. */
static const struct list {
    const char *name;
    const struct br_counter *counters;
    size_t bytes; /* of an element */
    int (*take)(struct braid_comm *comm, void *out, int max);
    struct {
        const char *name;
        size_t offset; /* of an int */
    } numbers[4];      /* NULL ends them */
} lists[] = {
    {"rank", br_counters_rank, sizeof(struct braid_stats), take_rank, {{NULL, 0}}},
    {"peer",
     br_counters_peer,
     sizeof(struct braid_peer_stats),
     take_peer,
     {{"peer", offsetof(struct braid_peer_stats, peer)}}},
    {"rail",
     br_counters_rail,
     sizeof(struct braid_rail_stats),
     take_rail,
     {{"peer", offsetof(struct braid_rail_stats, peer)},
      {"rail", offsetof(struct braid_rail_stats, rail)},
      {"level", offsetof(struct braid_rail_stats, level)}}},
};

#define LISTS (sizeof lists / sizeof *lists)

/* Takes "rail/3/tx_bytes" apart. Returns the list, or NULL; *field is what follows. */
static const struct list *by_name_list(const char *name, int *index, const char **field)
{
    *index = 0;
    *field = name;
    if (!strchr(name, '/'))
        return &lists[0];
    for (size_t i = 1; i < LISTS; i++) {
        size_t length = strlen(lists[i].name);
        char *end;
        long n;

        if (strncmp(name, lists[i].name, length) != 0 || name[length] != '/' ||
            name[length + 1] < '0' || name[length + 1] > '9')
            continue;
        n = strtol(name + length + 1, &end, 10);
        if (*end != '/' || n >= INT_MAX)
            return NULL;
        *index = (int)n;
        *field = end + 1;
        return &lists[i];
    }
    return NULL;
}

/* Reads a field of an element; false: there is none of this name. element NULL: only looks. */
static bool by_name_read(const struct list *list, const char *field, const char *element,
                         uint64_t *value)
{
    for (const struct br_counter *c = list->counters; c->name; c++)
        if (!strcmp(c->name, field)) {
            if (element)
                memcpy(value, element + c->offset, sizeof *value);
            return true;
        }
    for (int i = 0; list->numbers[i].name; i++)
        if (!strcmp(list->numbers[i].name, field)) {
            int number = 0;

            if (element)
                memcpy(&number, element + list->numbers[i].offset, sizeof number);
            *value = (uint64_t)number;
            return true;
        }
    return false;
}

int braid_stats_get(struct braid_comm *comm, const char *name, uint64_t *value)
{
    BR_DISABLE_CANCELLATION;
    int rc = br_comm_check(comm, "braid_stats_get"), index, n;
    const struct list *list;
    const char *field;
    char *elements;

    if (rc)
        return rc;
    if (!name || !value)
        return br_error(EINVAL, "braid_stats_get: the name or the place for the value is missing");
    list = by_name_list(name, &index, &field);
    if (!list || !by_name_read(list, field, NULL, value))
        return br_error(ENOENT,
                        "braid_stats_get: there is no counter %.100s; doc/stats.md and "
                        "braid_stats_name() have the names",
                        name);
    n = list->take(comm, NULL, 0);
    if (index >= n)
        return n < 0 ? n
                     : br_error(ENOENT, "braid_stats_get: %.100s: there are %d of %s", name, n,
                                list->name);
    elements = calloc((size_t)index + 1, list->bytes);
    if (!elements)
        return br_error(ENOMEM, "braid_stats_get: no memory for %d elements", index + 1);
    n = list->take(comm, elements, index + 1);
    if (n >= 0)
        by_name_read(list, field, elements + (size_t)index * list->bytes, value);
    free(elements);
    return n < 0 ? n : 0;
}

const char *braid_stats_name(const char *of, int i)
{
    for (size_t l = 0; of && l < LISTS; l++)
        for (int c = 0; !strcmp(of, lists[l].name) && lists[l].counters[c].name; c++)
            if (c == i)
                return lists[l].counters[c].name;
    return NULL;
}
