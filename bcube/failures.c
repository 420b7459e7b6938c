/* SPDX-License-Identifier: BSD-3-Clause */
#include "bcube/failures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static uint32_t key_of(enum br_failure kind, uint32_t number, uint32_t level)
{
    return (uint32_t)kind << 28 | level << 16 | number;
}

/* Index of the first key that is not less. */
static uint32_t failures_place_of(const struct br_failures *failures, uint32_t key)
{
    uint32_t low = 0, high = failures->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (failures->keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void br_failures_destroy(struct br_failures *failures)
{
    free(failures->keys);
    *failures = (struct br_failures){0};
}

int br_failures_add(struct br_failures *failures, enum br_failure kind, uint32_t number,
                    uint32_t level)
{
    uint32_t key = key_of(kind, number, level);
    if (number >= BR_BCUBE_HOSTS_MAX || level >= BR_BCUBE_LEVELS_MAX)
        return br_error(EINVAL, "no cube has a number %u on a level %u: they end at %u and %d",
                        number, level, BR_BCUBE_HOSTS_MAX - 1, BR_BCUBE_LEVELS_MAX - 1);
    if (br_failures_has(failures, kind, number, level))
        return 0;
    if (failures->count == failures->capacity) {
        uint32_t capacity = failures->capacity ? failures->capacity * 2 : 16;
        uint32_t *keys = realloc(failures->keys, capacity * sizeof *keys);
        if (!keys)
            return br_error(ENOMEM, "no memory for %u failures of a BCube", capacity);
        failures->keys = keys;
        failures->capacity = capacity;
    }
    uint32_t place = failures_place_of(failures, key);
    memmove(failures->keys + place + 1, failures->keys + place,
            (failures->count - place) * sizeof key);
    failures->keys[place] = key;
    failures->count++;
    return 0;
}

bool br_failures_has(const struct br_failures *failures, enum br_failure kind, uint32_t number,
                     uint32_t level)
{
    if (!failures || !failures->count)
        return false;
    uint32_t key = key_of(kind, number, level), place = failures_place_of(failures, key);
    return place < failures->count && failures->keys[place] == key;
}

bool br_host_works(const struct br_failures *failures, uint32_t host)
{
    if (failures && failures->missing_from && host >= failures->missing_from)
        return false;
    return !br_failures_has(failures, BR_FAILURE_HOST, host, 0);
}

bool br_nic_works(const struct br_bcube *cube, const struct br_failures *failures, uint32_t host,
                  uint32_t level)
{
    return br_host_works(failures, host) &&
           !br_failures_has(failures, BR_FAILURE_NIC, host, level) &&
           !br_failures_has(failures, BR_FAILURE_SWITCH, br_bcube_switch(cube, host, level), level);
}

bool br_link_works(const struct br_bcube *cube, const struct br_failures *failures, uint32_t a,
                   uint32_t b, uint32_t level)
{
    return br_nic_works(cube, failures, a, level) && br_nic_works(cube, failures, b, level);
}
