/* SPDX-License-Identifier: BSD-3-Clause */
/* The monitor on real memory: what changes pages is told, before it can be found out otherwise, and
 * nobody waits for ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "transport/monitor.h"

#define PAGE  4096ul
#define PAGES 16

static struct {
    struct br_watch watch;
    uintptr_t low, high; /* what has gone, within */
    int n;
} seen; /* under the monitor's lock */

static void gone(struct br_watch *watch, uintptr_t start, uintptr_t end)
{
    (void)watch;
    seen.low = start < seen.low ? start : seen.low;
    seen.high = end > seen.high ? end : seen.high;
    seen.n++;
}

static void forget(void)
{
    br_monitor_lock();
    seen.low = UINTPTR_MAX;
    seen.high = 0;
    seen.n = 0;
    br_monitor_unlock();
}

static int setup(void **state)
{
    int rc;

    (void)state;
    seen.watch = (struct br_watch){.invalidate = gone};
    br_list_init(&seen.watch.node);
    forget();
    rc = br_monitor_open(&seen.watch);
    if (rc)
        print_message("no userfaultfd here: %s\n", br_error_message());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (!br_list_empty(&seen.watch.node))
        br_monitor_close(&seen.watch);
    return 0;
}

static void need_monitor(void)
{
    if (br_list_empty(&seen.watch.node))
        skip();
}

static uint8_t *map(size_t pages)
{
    uint8_t *p =
        mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    memset(p, 1, pages * PAGE);
    return p;
}

static uint8_t *map_armed(void)
{
    uint8_t *p = map(PAGES);

    assert_int_equal(br_monitor_arm((uintptr_t)p, (uintptr_t)p + PAGES * PAGE), 0);
    return p;
}

/* The call has returned: what it did has been told already, whether or not somebody asks. */
static void expect_gone(const uint8_t *p, size_t first, size_t n)
{
    br_monitor_lock();
    assert_true(br_monitor_is_current());
    assert_true(seen.n > 0);
    assert_int_equal(seen.low, (uintptr_t)p + first * PAGE);
    assert_int_equal(seen.high, (uintptr_t)p + (first + n) * PAGE);
    br_monitor_unlock();
    forget();
}

static void monitor__tells_what_changes_pages(void **state)
{
    uint8_t *p, *q;

    (void)state;
    need_monitor();
    p = map_armed();
    assert_int_equal(madvise(p + PAGE, PAGE, MADV_DONTNEED), 0);
    expect_gone(p, 1, 1);
    assert_int_equal(madvise(p + 2 * PAGE, 3 * PAGE, MADV_FREE), 0);
    expect_gone(p, 2, 3);
    assert_int_equal(munmap(p + 14 * PAGE, 2 * PAGE), 0);
    expect_gone(p, 14, 2);
    assert_ptr_equal(
        mmap(p + 12 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        p + 12 * PAGE);
    expect_gone(p, 12, 1);
    q = mremap(p + 8 * PAGE, 2 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
    assert_ptr_not_equal(q, MAP_FAILED);
    expect_gone(p, 8, 2);
    munmap(q, 64 * PAGE);
    munmap(p, 8 * PAGE); /* not the holes: somebody else's malloc() may have taken them */
    munmap(p + 10 * PAGE, 4 * PAGE);
}

static void monitor__no_faults_no_noise(void **state)
{
    uint8_t *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                      0),
            *q;

    (void)state;
    need_monitor();
    assert_int_equal(br_monitor_arm((uintptr_t)p, (uintptr_t)p + PAGES * PAGE), 0);
    memset(p, 5, PAGES * PAGE); /* first touch after arming */
    assert_int_equal(mprotect(p, PAGE, PROT_READ), 0);
    assert_int_equal(madvise(p, PAGES * PAGE, MADV_WILLNEED), 0);
    q = map(PAGES); /* not armed */
    munmap(q, PAGES * PAGE);
    br_monitor_lock();
    assert_true(br_monitor_is_current());
    assert_int_equal(seen.n, 0);
    br_monitor_unlock();
    munmap(p, PAGES * PAGE);
}

static void arm__files_cannot_be_watched(void **state)
{
    FILE *file;
    uint8_t *p;

    (void)state;
    need_monitor();
    file = fopen("/proc/self/exe", "rb");
    assert_non_null(file);
    p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fileno(file), 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_true(br_monitor_arm((uintptr_t)p, (uintptr_t)p + PAGE) < 0);
    assert_non_null(strstr(br_error_message(), "userfaultfd"));
    munmap(p, PAGE);
    assert_true(br_monitor_arm((uintptr_t)p, (uintptr_t)p + PAGE) < 0); /* nothing is there */
    fclose(file);
}

/* The heap gives memory back by itself, in free(). */
static void monitor__heap_shrinks(void **state)
{
    uintptr_t start, end;
    char *big;

    (void)state;
    need_monitor();
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 0);
    big = malloc(8 << 20);
    assert_non_null(big);
    memset(big, 1, 8 << 20);
    start = ((uintptr_t)big + PAGE - 1) & ~(PAGE - 1);
    end = ((uintptr_t)big + (8 << 20)) & ~(PAGE - 1);
    assert_int_equal(br_monitor_arm(start, end), 0);
    free(big);
    malloc_trim(0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their allocators keep it */
    br_monitor_lock();
    assert_true(br_monitor_is_current());
    assert_true(seen.n > 0);
    assert_in_range(seen.low, start, end);
    br_monitor_unlock();
#endif
}

static _Atomic bool enough;

static void *churn(void *unused)
{
    while (!atomic_load(&enough)) {
        uint8_t *p = map_armed();

        madvise(p, PAGE, MADV_DONTNEED);
        munmap(p, PAGES * PAGE);
    }
    return unused;
}

/* Threads that change armed memory all the time, and one that asks, and watches that come and
 * go. */
static void monitor__nobody_waits_for_ever(void **state)
{
    struct br_watch other = {.invalidate = gone};
    pthread_t threads[3];
    int settled = 0;

    (void)state;
    need_monitor();
    atomic_store(&enough, false);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, NULL), 0);
    for (int i = 0; i < 300 || (!settled && i < 1000000); i++) {
        br_list_init(&other.node);
        assert_int_equal(br_monitor_open(&other), 0);
        br_monitor_lock();
        settled += br_monitor_is_current();
        br_monitor_unlock();
        sched_yield();
        br_monitor_close(&other);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_true(settled > 0);
}

/* After the last close nobody reads events, and armed memory is as any other. */
static void close__armed_memory_is_let_go(void **state)
{
    uint8_t *p;

    (void)state;
    need_monitor();
    for (int i = 0; i < 20; i++) {
        p = map_armed();
        br_monitor_close(&seen.watch);
        munmap(p, PAGES * PAGE);
        assert_int_equal(br_monitor_open(&seen.watch), 0);
    }
}

/* A child that lives on must not keep the parent's descriptor, nor use it. */
static void fork__child_has_no_monitor(void **state)
{
    uint8_t *p, *q;
    int go[2], status;
    char c = 0;
    pid_t pid;

    (void)state;
    need_monitor();
    p = map_armed();
    q = map_armed();
    assert_int_equal(pipe(go), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        bool settled;

        close(go[1]);
        br_monitor_lock();
        settled = br_monitor_is_current();
        br_monitor_unlock();
        munmap(p, PAGES * PAGE); /* its own copy: tells nobody */
        if (read(go[0], &c, 1) < 0)
            _exit(2);
        _exit(settled);
    }
    close(go[0]);
    munmap(p, PAGES * PAGE);
    expect_gone(p, 0, PAGES);
    br_monitor_close(&seen.watch);
    munmap(q, PAGES * PAGE); /* would wait for ever if the child held the descriptor */
    close(go[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(br_monitor_open(&seen.watch), 0);
}

static void open__says_why_not(void **state)
{
    struct br_watch watch = {.invalidate = gone};
    struct rlimit before, none;

    (void)state;
    need_monitor();
    br_monitor_close(&seen.watch);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(br_monitor_open(&watch), -EMFILE);
    assert_non_null(strstr(br_error_message(), "userfaultfd"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(br_monitor_open(&seen.watch), 0);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(monitor__tells_what_changes_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(monitor__no_faults_no_noise, setup, teardown),
        cmocka_unit_test_setup_teardown(arm__files_cannot_be_watched, setup, teardown),
        cmocka_unit_test_setup_teardown(monitor__heap_shrinks, setup, teardown),
        cmocka_unit_test_setup_teardown(monitor__nobody_waits_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(close__armed_memory_is_let_go, setup, teardown),
        cmocka_unit_test_setup_teardown(fork__child_has_no_monitor, setup, teardown),
        cmocka_unit_test_setup_teardown(open__says_why_not, setup, teardown),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
