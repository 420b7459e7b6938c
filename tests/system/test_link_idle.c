/* SPDX-License-Identifier: BSD-3-Clause */
/* Links on demand among real processes: those that are long unused are shut, which frees their
 * sockets, and the next exchange makes them again. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "protocol/internal.h"
#include "ranks.h"

#define RANKS 6
#define BYTES (256 << 10)

static int sockets(void)
{
    DIR *fds = opendir("/proc/self/fd");
    char name[300], target[64];
    int n = 0;

    for (struct dirent *entry; fds && (entry = readdir(fds));) {
        ssize_t length;

        snprintf(name, sizeof name, "/proc/self/fd/%s", entry->d_name);
        length = readlink(name, target, sizeof target);
        n += length > 7 && !memcmp(target, "socket:", 7);
    }
    if (fds)
        closedir(fds);
    return n;
}

/* With each rank, the one after the other: our number there, theirs here. */
static int exchange_with_all(struct braid_comm *comm, uint8_t *memory)
{
    int rank = braid_rank(comm);

    for (int peer = 0; peer < RANKS; peer++) {
        struct braid_op *ops[2];

        if (peer == rank)
            continue;
        memset(memory, 1 + rank, BYTES);
        RETURNS(0, braid_recv(comm, memory + BYTES, BYTES, peer, NULL, &ops[0]));
        RETURNS(0, braid_send(comm, memory, BYTES, peer, NULL, &ops[1]));
        RETURNS(0, braid_wait_all(ops, 2, RANKS_PATIENCE));
        for (int i = 0; i < BYTES; i++)
            CHECK(memory[BYTES + i] == 1 + peer, "byte %d from rank %d", i, peer);
    }
    return 0;
}

static int body(struct braid_comm *comm, void *context)
{
    uint8_t *memory = malloc(2l * BYTES);
    int rank = braid_rank(comm), before = sockets(), links = 0;

    (void)context;
    CHECK(memory, "no memory");
    for (int peer = 0; peer < RANKS; peer++)
        links += peer != rank && !br_demand_in_tree(rank, peer);
    ranks_tell(0); /* a rank that is ahead would add a socket to those before */
    ranks_await(0, RANKS);
    for (int round = 0; round < 2; round++) {
        double begun = ranks_now_ms();
        int left = before, used;

        if (exchange_with_all(comm, memory))
            return 1;
        used = sockets(); /* refused ones of two that began at once included, for a moment */
        if (used - links < left && ranks_now_ms() - begun < 500) /* else some may be shut already */
            left = used - links;
        while (sockets() > left) {
            CHECK(ranks_now_ms() - begun < RANKS_PATIENCE,
                  "%d sockets, %d with all links, %d before", sockets(), used, before);
            ranks_sleep_ms(20);
        }
        /* Else a rank that is ahead would need the links that others are about to shut. */
        ranks_tell(1 + round);
        ranks_await(1 + round, RANKS);
    }
    free(memory);
    return 0;
}

static void link_idle__sockets(void **state)
{
    const struct ranks job = {.size = RANKS, .backend = "tcp"};

    (void)state;
    setenv("BRAID_LINKS", "demand", 1);
    setenv("BRAID_LINK_IDLE", "1", 1);
    ranks_run(&job, body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_idle__sockets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
