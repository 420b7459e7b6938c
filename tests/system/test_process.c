/* SPDX-License-Identifier: BSD-3-Clause */
/* braid beside what else a process does: signals, threads that are cancelled, fork(). */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/ranks.h"

/* ---- signals ----------------------------------------------------------------------------------------------- */

/* The signals that a thread of this process lets through, a bit each; 0: it blocks all that can be blocked. */
static uint64_t open_to(const char *thread)
{
    uint64_t blocked = UINT64_MAX; /* of a thread that has ended meanwhile */
    char path[300], line[256];
    FILE *status;

    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "SigBlk:", 7))
            blocked = strtoull(line + 7, NULL, 16);
    if (status)
        fclose(status);
    for (int number = 1; number <= SIGRTMAX; number++)
        if (number == SIGKILL || number == SIGSTOP || (number > SIGSYS && number < SIGRTMIN))
            blocked |= 1ull << (number - 1);
    return ~blocked;
}

/* All threads but the program's, which is the only one that it has. */
static int threads_block_signals(struct braid_comm *comm, void *context)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    int threads = 0;

    (void)comm, (void)context;
    CHECK(tasks, "no list of threads");
    while ((entry = readdir(tasks))) {
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid())
            continue;
        threads++;
        CHECK(!open_to(entry->d_name), "thread %s lets through the signals %llx", entry->d_name,
              (unsigned long long)open_to(entry->d_name));
    }
    closedir(tasks);
    CHECK(threads, "no thread of braid's was seen");
    return 0;
}

static void process__no_signal_reaches_a_thread_of_braid(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, threads_block_signals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(process__no_signal_reaches_a_thread_of_braid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
