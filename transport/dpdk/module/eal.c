/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts DPDK's environment: notes 3 and 4 of transport/dpdk/module.h. */
#include <errno.h>
#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "transport/dpdk/module/module.h"

#define ARGUMENTS 64
#define LEAST     64 /* megabytes */
#define PATIENCE  30 /* seconds for the start */

struct job {
    const struct br_dpdk_start *start;
    char text[ARGUMENTS][48];
    char *argv[ARGUMENTS + 1];
    int argc, rc, error;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool started;
static struct job job; /* EAL keeps pointers into its arguments */
static void (*sink)(int level, const char *line);
static char last_log[200]; /* under lines_lock */
static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;

int br_dpdk_message(char *text, int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(text, BR_DPDK_MESSAGE, format, args);
    va_end(args);
    return -err;
}

void br_dpdk_eal_forget(void)
{
    pthread_mutex_lock(&lines_lock);
    last_log[0] = 0;
    pthread_mutex_unlock(&lines_lock);
}

/* A copy: DPDK's own threads may be saying something at this moment. */
const char *br_dpdk_eal_last_log(void)
{
    static _Thread_local char copy[sizeof last_log];

    pthread_mutex_lock(&lines_lock);
    memcpy(copy, last_log, sizeof copy);
    pthread_mutex_unlock(&lines_lock);
    return copy;
}

/* What EAL and the drivers print. */
static ssize_t take_line(void *cookie, const char *bytes, size_t n)
{
    int level = rte_log_cur_msg_loglevel();
    char line[200];
    size_t m = n < sizeof line - 1 ? n : sizeof line - 1;

    (void)cookie;
    memcpy(line, bytes, m);
    while (m && (line[m - 1] == '\n' || line[m - 1] == ' '))
        m--;
    line[m] = 0;
    if (!m)
        return (ssize_t)n;
    if (level > 0 && level <= (int)RTE_LOG_ERR) {
        pthread_mutex_lock(&lines_lock);
        if (!last_log[0]) /* the first one is nearest to the cause */
            memcpy(last_log, line, m + 1);
        pthread_mutex_unlock(&lines_lock);
    }
    sink(level > 0 ? level - 1 : (int)RTE_LOG_DEBUG - 1, line);
    return (ssize_t)n;
}

static int eal_capture(char *text)
{
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = take_line});

    if (!stream)
        return br_dpdk_message(text, ENOMEM, "no stream for DPDK's log");
    setvbuf(stream, NULL, _IOLBF, 256);
    rte_openlog_stream(stream);
    return 0;
}

static void __attribute__((format(printf, 1, 2))) eal_add(const char *format, ...)
{
    va_list args;

    if (job.argc == ARGUMENTS)
        return; /* there are fewer: BR_DPDK_ALLOWED */
    va_start(args, format);
    vsnprintf(job.text[job.argc], sizeof job.text[0], format, args);
    va_end(args);
    job.argv[job.argc] = job.text[job.argc];
    job.argc++;
}

/* The first core that this thread may run on: EAL wants the number of one. */
static int any_core(void)
{
    cpu_set_t cores;

    if (!sched_getaffinity(0, sizeof cores, &cores))
        for (unsigned i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &cores))
                return (int)i;
    return 0;
}

static void write_arguments(const struct br_dpdk_start *start)
{
    job.argc = 0;
    eal_add("braid");
    eal_add("--no-telemetry");
    eal_add("--lcores=0@%d", any_core());
    eal_add("--file-prefix=braid-%d", (int)getpid());
    if (start->huge) {
        eal_add("--in-memory");
        eal_add("--iova-mode=va");
    } else {
        eal_add("--no-huge");
        eal_add("--no-shconf");
        eal_add("-m");
        eal_add("%u", start->megabytes > LEAST ? start->megabytes : LEAST);
    }
    if (!start->n_pci)
        eal_add("--no-pci");
    for (int i = 0; i < start->n_pci; i++) {
        eal_add("-a");
        eal_add("%s", start->pci[i]);
    }
    job.argv[job.argc] = NULL;
}

static void *eal_run(void *unused)
{
    (void)unused;
    job.rc = rte_eal_init(job.argc, job.argv);
    job.error = rte_errno;
    return NULL;
}

static int start_once(const struct br_dpdk_start *start, char *text)
{
    struct timespec until;
    pthread_t thread;
    int rc;

    sink = start->log;
    rc = eal_capture(text);
    if (rc)
        return rc;
    write_arguments(start);
    rc = br_thread_start(&thread, eal_run, NULL);
    if (rc)
        return br_dpdk_message(text, rc, "no thread to start DPDK: %s", strerror(rc));
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE;
    if (pthread_timedjoin_np(thread, NULL, &until)) {
        pthread_detach(thread);
        return br_dpdk_message(text, ETIMEDOUT, "DPDK has not started within %d s: %.200s",
                               PATIENCE, br_dpdk_eal_last_log());
    }
    if (job.rc < 0 && job.error != EALREADY)
        return br_dpdk_message(text, job.error > 0 ? job.error : EIO,
                               "DPDK does not start: %.200s (%s)", br_dpdk_eal_last_log(),
                               rte_strerror(job.error));
    return 0;
}

/* What a failed start has left behind nobody can clean up: the first answer stands. */
int br_dpdk_eal_start(const struct br_dpdk_start *start, char *text)
{
    static char failure[BR_DPDK_MESSAGE];
    static int rc;

    pthread_mutex_lock(&lock);
    if (!started)
        rc = start_once(start, failure);
    started = true;
    if (rc)
        memcpy(text, failure, BR_DPDK_MESSAGE);
    pthread_mutex_unlock(&lock);
    return rc;
}

__attribute__((visibility("default"))) const struct br_dpdk_module br_dpdk_module;
const struct br_dpdk_module br_dpdk_module = {
    .version = BR_DPDK_VERSION,
    .start = br_dpdk_eal_start,
    .open = br_dpdk_port_open,
    .close = br_dpdk_port_close,
    .is_up = br_dpdk_port_is_up,
    .receive = br_dpdk_port_receive,
    .send = br_dpdk_port_send,
    .dropped = br_dpdk_port_dropped,
    .copied = br_dpdk_port_copied,
};
