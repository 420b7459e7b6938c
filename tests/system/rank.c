/* SPDX-License-Identifier: BSD-3-Clause */
#include "rank.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <braid/braid.h>

#include "base/clock.h"

#define RAILS_MAX 64
#define CARRIES   100000 /* bytes */
#define LEFT_MS   5000

struct rank {
    struct braid_comm *all, *comm; /* of the job; that works */
    size_t count;
    float *memory;
    int rails, peer; /* rails of all peers; whose rails we talk about */
    unsigned mask;
    uint64_t failures;      /* of all rails to it */
    uint64_t repaired;      /* of all rails: failures when they were last seen to be up */
    uint64_t tx[RAILS_MAX]; /* at the last change of mask */
    int loops, parts;
    int changes;  /* of mask or failures */
    bool carried; /* since the last one */
};

static struct braid_comm *_Atomic current;
static _Atomic uint64_t end_at; /* ns */

/* ---- signals --------------------------------------------------------------------------------- */

static void cut(void)
{
    struct sockaddr_storage peer;

    for (int fd = 3; fd < 1024; fd++) {
        socklen_t bytes = sizeof peer;

        if (!getpeername(fd, (struct sockaddr *)&peer, &bytes) && !shutdown(fd, SHUT_RDWR))
            return;
    }
    _exit(99); /* there was nothing to cut */
}

static void *obey(void *signals)
{
    int number;

    while (!sigwait(signals, &number)) {
        if (number == RANK_CUT)
            cut();
        else if (number == RANK_ABORT)
            braid_comm_abort(current, "the test wants it");
        else if (number == RANK_END)
            end_at = 0;
        else
            _exit(0);
    }
    return NULL;
}

static void listen_to_signals(void)
{
    static sigset_t signals;
    pthread_t thread;

    sigemptyset(&signals);
    sigaddset(&signals, RANK_CUT);
    sigaddset(&signals, RANK_ABORT);
    sigaddset(&signals, RANK_END);
    sigaddset(&signals, RANK_LEAVE);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    if (pthread_create(&thread, NULL, obey, &signals))
        abort();
}

/* ---- work ------------------------------------------------------------------------------------ */

static int entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

/* The kernel takes a thread out of the list a moment after pthread_join() has returned: what is not
 * gone after LEFT_MS is left. */
static bool threads_left(int before)
{
    for (int ms = 0; entries("/proc/self/task") != before; ms++) {
        if (ms == LEFT_MS)
            return true;
        usleep(1000);
    }
    return false;
}

/* The sum over all ranks is an integer below 2^24: exact. */
static float value(size_t i, int loop)
{
    return (float)((i + (size_t)loop) % 61);
}

static int allreduce(struct rank *rank)
{
    size_t n = rank->count;
    int size = braid_size(rank->comm), rc;

    for (size_t i = 0; i < n; i++)
        rank->memory[i] = value(i, rank->loops) + (float)braid_rank(rank->comm);
    rc = braid_allreduce(rank->comm, rank->memory, rank->memory + n, n, BRAID_FLOAT32, BRAID_SUM,
                         NULL, NULL);
    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++)
        if (rank->memory[n + i] !=
            (float)size * value(i, rank->loops) + (float)(size * (size - 1) / 2)) {
            printf("wrong: element %zu of loop %d is %f\n", i, rank->loops,
                   (double)rank->memory[n + i]);
            exit(RANK_WRONG);
        }
    return 0;
}

/* Prints the rails to our peer when one has come or gone; returns how many bytes each sent since
 * then in tx. */
static void look_at_rails(struct rank *rank, uint64_t *tx)
{
    struct braid_rail_stats all[RAILS_MAX] = {0};
    int n = braid_rail_stats(rank->comm, all, RAILS_MAX);
    unsigned mask = 0;
    uint64_t failures = 0, of_all = 0;
    bool changed, whole = true;

    for (int i = 0; i < n && i < RAILS_MAX; i++) {
        whole = whole && all[i].up;
        of_all += all[i].failures;
        if (all[i].peer == rank->peer) {
            mask |= all[i].up ? 1u << all[i].level : 0;
            failures += all[i].failures;
        }
    }
    changed = mask != rank->mask || failures != rank->failures;
    if (changed) {
        printf("rails %u\n", mask);
        rank->changes++;
        rank->carried = false;
    }
    for (int i = 0; i < n && i < RAILS_MAX; i++) {
        if (all[i].peer != rank->peer)
            continue;
        if (changed)
            rank->tx[all[i].level] = all[i].tx_bytes;
        tx[all[i].level] = all[i].tx_bytes - rank->tx[all[i].level];
    }
    if (whole && of_all != rank->repaired) {
        printf("whole again\n");
        rank->repaired = of_all;
    }
    rank->failures = failures;
    rank->mask = mask;
}

/* true: go on. All ranks go on until the time of one is over. */
static bool loop(struct rank *rank, int *rc)
{
    int32_t over = br_clock_now() >= end_at, any = 0;
    uint64_t tx[RAILS_MAX] = {0};

    *rc = allreduce(rank);
    if (!*rc)
        *rc = braid_allreduce(rank->comm, &over, &any, 1, BRAID_INT32, BRAID_MAX, NULL, NULL);
    if (*rc)
        return false;
    look_at_rails(rank, tx);
    if (!rank->carried && tx[0] > CARRIES && tx[1] > CARRIES) {
        printf("carry %d\n", rank->changes);
        rank->carried = true;
    }
    if (!rank->loops++)
        printf("ready %d\n", (int)getpid());
    return !any;
}

static int work(struct rank *rank)
{
    struct braid_stats stats = {0};
    uint64_t tx[RAILS_MAX] = {0};
    int rc = rank->parts
                 ? braid_comm_split(rank->all, braid_rank(rank->all) % rank->parts, 0, &rank->comm)
                 : 0;

    if (rc)
        return rc;
    rank->peer = (braid_rank(rank->comm) + 1) % braid_size(rank->comm);
    rank->memory = braid_alloc(rank->comm, 2 * rank->count * sizeof *rank->memory);
    if (!rank->memory)
        return -ENOMEM;
    while (loop(rank, &rc))
        ;
    braid_stats(rank->comm, &stats);
    look_at_rails(rank, tx);
    if (!rc)
        printf("done %d unauthenticated %llu tx %llu %llu\n", rank->loops,
               (unsigned long long)stats.failed_handshakes, (unsigned long long)tx[0],
               (unsigned long long)tx[1]);
    return rc;
}

int rank_main(int argc, char **argv)
{
    struct rank rank = {0};
    int files, threads, rc;

    if (argc < 2 || argc > 3)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    listen_to_signals();
    end_at = br_clock_now() + strtoull(argv[0], NULL, 10) * BR_MS;
    rank.count = strtoull(argv[1], NULL, 10);
    rank.parts = argc == 3 ? atoi(argv[2]) : 0;
    files = entries("/proc/self/fd");
    threads = entries("/proc/self/task");
    rc = braid_init(NULL, &rank.all);
    if (!rc) {
        signal(SIGTERM, SIG_IGN);
        current = rank.comm = rank.all;
        rc = work(&rank);
    }
    if (rc)
        printf("error %d: %s\n", -rc, braid_last_error());
    if (braid_finalize(rank.all))
        printf("finalize: %s\n", braid_last_error());
    if (threads_left(threads) || entries("/proc/self/fd") != files) {
        printf("leak: %d files, %d threads; before %d, %d\n", entries("/proc/self/fd"),
               entries("/proc/self/task"), files, threads);
        return RANK_LEAKS;
    }
    return rc ? RANK_FAILED : 0;
}
