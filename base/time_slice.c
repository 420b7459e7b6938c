/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/time_slice.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define SHORTEST (100 * BR_US) /* that the kernel takes */
#define THREADS  64            /* others keep their slices */

/* The first version of struct sched_attr. <linux/sched/types.h>, which has it, cannot be included
 * beside <sched.h>, which does not have it in older C libraries. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime; /* the slice in ns; 0 in kernels that have one for all threads */
    uint64_t deadline, period;
};

/* A thread that has the short slice. It may have ended, or, in a child, be the parent's. */
struct shortened {
    pid_t tid;
    uint64_t before; /* its slice, in ns; 0: the default */
};

/* Only tried, as a child may have been forked while it was locked. Others try again later. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shortened threads[THREADS]; /* under `lock` */
static atomic_int n_threads;              /* written under `lock` */
static bool shortened;                    /* a thread has been, at any time; under `lock` */

static bool read_slice(pid_t tid, struct attributes *a)
{
    return !syscall(SYS_sched_getattr, tid, a, sizeof *a, 0) && a->policy == SCHED_OTHER;
}

static bool write_slice(pid_t tid, struct attributes *a, uint64_t slice)
{
    a->size = sizeof *a;
    a->runtime = slice;
    return !syscall(SYS_sched_setattr, tid, a, 0);
}

static int find_thread(pid_t tid)
{
    int n = atomic_load(&n_threads);

    for (int i = 0; i < n; i++)
        if (threads[i].tid == tid)
            return i;
    return -1;
}

/* One that has the short slice without being in the list has inherited it. */
static void shorten(pid_t tid)
{
    int n = atomic_load(&n_threads);
    struct attributes a = {0};
    uint64_t before;

    if (n == THREADS || !read_slice(tid, &a))
        return;
    before = a.runtime;
    if (before > SHORTEST ? !write_slice(tid, &a, SHORTEST) : before < SHORTEST || !shortened)
        return;
    shortened = true;
    threads[n] = (struct shortened){tid, before > SHORTEST ? before : 0};
    atomic_store(&n_threads, n + 1);
}

/* To the default, as that follows the kernel's setting; unless it was another one. */
static void restore(int i)
{
    struct shortened thread = threads[i];
    int last = atomic_load(&n_threads) - 1;
    struct attributes a = {0};

    threads[i] = threads[last];
    atomic_store(&n_threads, last);
    if (syscall(SYS_tgkill, getpid(), thread.tid, 0) || !read_slice(thread.tid, &a) ||
        a.runtime != SHORTEST) /* it has ended, or the program has chosen another one */
        return;
    if (write_slice(thread.tid, &a, 0) && thread.before && read_slice(thread.tid, &a) &&
        a.runtime != thread.before)
        write_slice(thread.tid, &a, thread.before);
}

void br_time_slice_set(bool is_short)
{
    pid_t tid;
    int i;

    if ((!is_short && !atomic_load_explicit(&n_threads, memory_order_relaxed)) ||
        pthread_mutex_trylock(&lock))
        return;
    tid = (pid_t)syscall(SYS_gettid);
    i = find_thread(tid);
    if (is_short && i < 0)
        shorten(tid);
    else if (!is_short && i >= 0)
        restore(i);
    pthread_mutex_unlock(&lock);
}

void br_time_slice_restore_all(void)
{
    if (!atomic_load_explicit(&n_threads, memory_order_relaxed) || pthread_mutex_trylock(&lock))
        return;
    for (int n = atomic_load(&n_threads); n > 0; n--)
        restore(n - 1);
    pthread_mutex_unlock(&lock);
}
