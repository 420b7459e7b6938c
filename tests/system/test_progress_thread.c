/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks whose own thread sleeps in the devices, and is slow to wake up: ppoll() is this file's
 * (--wrap, tests/CMakeLists.txt). */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/ranks.h"

static atomic_bool slow; /* the progress thread gets no core */

int __real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                 const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                 const sigset_t *mask);

/* A sleeper that is woken looks for what woke it once it has a core. If somebody has taken that
 * meanwhile, it sleeps on: so does the kernel's. */
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    double until = ranks_now_ms() + (double)timeout->tv_sec * 1e3 + (double)timeout->tv_nsec / 1e6,
           left;

    if (gettid() == getpid())
        return __real_ppoll(fds, n, timeout, mask);
    while ((left = until - ranks_now_ms()) > 0) {
        struct timespec rest = {(time_t)(left / 1e3), (long)(left * 1e6) % 1000000000}, none = {0};
        int rc = __real_ppoll(fds, n, &rest, mask);

        while (atomic_load(&slow))
            ranks_sleep_ms(1);
        if (rc > 0)
            rc = __real_ppoll(fds, n, &none, mask);
        if (rc)
            return rc;
    }
    return 0;
}

enum { IN_BOARD, SERVED };

/* Rank 1's caller, waiting for the shared segment, takes what comes from rank 0 and with it what
 * would have woken the progress thread. When it has left, the next put must wake that all the same.
 * In time at least once: others may have the cores, but not in every round. */
static int caller_took_it(struct braid_comm *comm, void *context)
{
    enum { ROUNDS = 30, LATE_MS = 60 };
    uint8_t *window = braid_alloc(comm, 1000), value = 1, in_time = 0,
            enough = 0; /* rank 0 has seen it; has said so */
    double least = 1e9;
    struct braid_key key, keys[2];

    (void)context;
    RETURNS(0, braid_key(comm, window, &key));
    RETURNS(0, braid_allgather(comm, &key, keys, sizeof key, BRAID_UINT8, NULL, NULL));
    for (int i = 1; i <= ROUNDS && !enough; i++) {
        double start;

        ranks_sleep_ms(40); /* the own threads fall asleep */
        if (braid_rank(comm)) {
            atomic_store(&slow, true);
            ranks_tell(IN_BOARD);
            RETURNS(
                0, braid_allreduce(comm, &in_time, &enough, 1, BRAID_UINT8, BRAID_MAX, NULL, NULL));
            atomic_store(&slow, false);
            ranks_await(SERVED, i);
            continue;
        }
        ranks_await(IN_BOARD, i);
        RETURNS(0, braid_put(comm, &value, 1, &keys[1], 0, NULL, NULL));
        ranks_sleep_ms(2); /* so that the sockets, too, are looked at */
        RETURNS(0, braid_allreduce(comm, &in_time, &enough, 1, BRAID_UINT8, BRAID_MAX, NULL, NULL));
        start = ranks_now_ms();
        RETURNS(0, braid_put(comm, &value, 1, &keys[1], 0, NULL, NULL));
        if (ranks_now_ms() - start < least)
            least = ranks_now_ms() - start;
        in_time = least < LATE_MS;
        ranks_tell(SERVED);
    }
    CHECK(braid_rank(comm) || in_time, "each put took %.0f ms or more", least);
    return braid_barrier(comm, NULL, NULL);
}

static void asleep__caller_took_it(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 2, .backend = "shm", .timeout_ms = RANKS_PATIENCE},
              caller_took_it, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asleep__caller_took_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
