/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/bcube/exhaustive.h"

#include <stdlib.h>
#include <string.h>

void exhaustive_distances(const struct br_bcube *cube, const struct br_failures *failures,
                          uint32_t from, uint32_t *distance)
{
    uint32_t *queue = calloc(cube->hosts, sizeof *queue), head = 0, tail = 0;
    memset(distance, 0xff, cube->hosts * sizeof *distance);
    if (!queue)
        abort();
    if (br_host_works(failures, from)) {
        distance[from] = 0;
        queue[tail++] = from;
    }
    while (head < tail) {
        uint32_t host = queue[head++];
        for (uint32_t other = 0; other < cube->hosts; other++) {
            int level = br_bcube_level(cube, host, other);
            if (level < 0 || distance[other] != UINT32_MAX ||
                !br_link_works(cube, failures, host, other, (uint32_t)level))
                continue;
            distance[other] = distance[host] + 1;
            queue[tail++] = other;
        }
    }
    free(queue);
}

void random_failures(const struct br_bcube *cube, struct br_random *random, uint32_t count,
                     struct br_failures *failures)
{
    while (count--) {
        enum br_failure kind = (enum br_failure)br_random_below(random, 3);
        uint32_t limit =
            kind == BR_FAILURE_SWITCH ? br_bcube_power(cube, cube->k - 1) : cube->hosts;
        uint32_t level = kind == BR_FAILURE_HOST ? 0 : (uint32_t)br_random_below(random, cube->k);
        if (br_failures_add(failures, kind, (uint32_t)br_random_below(random, limit), level))
            abort();
    }
}
