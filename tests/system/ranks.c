/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/system/ranks.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "protocol/bootstrap/store_socket.h"
#include "tools/run/launch.h"

const struct ranks ranks_kinds[RANKS_KINDS] = {
    {.backend = "tcp", .devices = "127.0.0.1"},
    {.backend = "tcp", .devices = "127.0.0.1,127.0.0.2"},
    {.backend = "shm"},
    {.backend = "auto", .devices = "127.0.0.1"},
    {.backend = "udp", .devices = "127.0.0.1,127.0.0.2"},
};

bool ranks_tried(int kind)
{
#ifdef __SANITIZE_THREAD__
    return kind != 0 && kind != 3;
#else
    return kind >= 0;
#endif
}

void ranks_sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000l};

    nanosleep(&t, NULL);
}

static atomic_int *told; /* how often each event was told; shared by the ranks of the job */

void ranks_tell(int event)
{
    atomic_fetch_add(&told[event], 1);
}

bool ranks_told(int event, int n)
{
    return atomic_load(&told[event]) >= n;
}

void ranks_await(int event, int n)
{
    while (!ranks_told(event, n))
        ranks_sleep_ms(1);
}

double ranks_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* The boot ID tells hosts apart (transport/shm/address.c): from here on this process sees another
 * one. */
static bool move_to_host(int host)
{
    char path[] = "/tmp/braid_boot_XXXXXX", id[40];
    int fd = mkstemp(path), n = snprintf(id, sizeof id, "%08d-0000-0000-0000-000000000000\n", host);
    bool moved = fd >= 0 && write(fd, id, (size_t)n) == n && !unshare(CLONE_NEWNS) &&
                 !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
                 !mount(path, "/proc/sys/kernel/random/boot_id", NULL, MS_BIND, NULL);

    if (fd >= 0)
        close(fd);
    unlink(path);
    return moved;
}

/* With the rank's digit for each '#'. */
static void name_devices(const char *pattern, int rank, char out[128])
{
    snprintf(out, 128, "%s", pattern);
    for (char *c = out; (c = strchr(c, '#'));)
        *c = (char)('0' + rank);
}

static int join(const struct ranks *job, int rank, int port, struct braid_comm **comm)
{
    char devices[128];
    struct braid_config config = {
        .size = job->size,
        .rank = rank,
        .master_addr = "127.0.0.1",
        .master_port = port,
        .secret = "a secret of the tests",
        .backend = job->backend,
        .devices = job->devices ? devices : NULL,
        .topology = job->topology,
        .slice_bytes = job->slice_bytes,
        .eager_bytes = job->eager_bytes,
        .timeout_ms = job->timeout_ms,
        .init_timeout_ms = job->init_timeout_ms,
        .peer_timeout_ms = job->peer_timeout_ms,
    };
    char text[16];

    name_devices(job->devices ? job->devices : "", rank, devices);
    snprintf(text, sizeof text, "%d",
             job->size); /* so that ranks yield when there are more of them than cores */
    setenv("LOCAL_WORLD_SIZE", text, 1);
    snprintf(text, sizeof text, "%d", rank);
    setenv("LOCAL_RANK", text, 1);
    *comm = NULL;
    return braid_init(&config, comm);
}

static int be_rank(const struct ranks *job, int rank, int port, ranks_main *body, void *context)
{
    struct braid_comm *comm;
    int rc, status;

    if (job->per_host && !move_to_host(rank / job->per_host)) {
        perror("a host of its own");
        return 1;
    }
    rc = join(job, rank, port, &comm);
    if (rc) {
        fprintf(stderr, "rank %d: braid_init: %d: %s\n", rank, rc, braid_last_error());
        return 1;
    }
    status = body(comm, context);
    rc = braid_finalize(comm);
    if (rc)
        fprintf(stderr, "rank %d: braid_finalize: %d: %s\n", rank, rc, braid_last_error());
    return status || rc;
}

static pid_t start(const struct ranks *job, int rank, int port, ranks_main *body, void *context)
{
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    alarm(RANKS_LIMIT);
    exit(be_rank(job, rank, port, body, context)); /* not _exit(): leaks are looked for at exit */
}

void ranks_run(const struct ranks *job, ranks_main *body, void *context)
{
    pid_t pids[RANKS_MOST];
    uint16_t port = 0;
    int reserved, failed = 0;

    assert_in_range(job->size, 1, RANKS_MOST);
    assert_int_equal(br_socket_reserve("127.0.0.1", &port, &reserved), 0);
    told = mmap(NULL, RANKS_EVENTS * sizeof *told, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(told != MAP_FAILED);
    for (int r = 0; r < job->size; r++)
        pids[r] = start(job, r, port, body, context);
    for (int r = 0; r < job->size; r++) {
        int status = -1;

        if (pids[r] > 0 && waitpid(pids[r], &status, 0) == pids[r] && status == 0)
            continue;
        failed++;
        if (WIFSIGNALED(status))
            fprintf(stderr, "rank %d of %d: ended by signal %d%s\n", r, job->size, WTERMSIG(status),
                    WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    }
    close(reserved);
    munmap(told, RANKS_EVENTS * sizeof *told);
    if (failed)
        fail_msg("%d of %d ranks failed (back end %s, devices %s)", failed, job->size,
                 RANKS_KIND(job));
}

void ranks_everywhere(int kinds, int size, ranks_main *body)
{
    for (int k = 0; k < kinds; k++) {
        struct ranks job = ranks_kinds[k];

        if (kinds > 1 && !ranks_tried(k))
            continue;
        job.size = size;
        job.timeout_ms = RANKS_PATIENCE;
        ranks_run(&job, body, NULL);
    }
}

int ranks_take_all(struct braid_op **ops, int n, int way)
{
    size_t index;
    int done;

    for (int i = n - 1; way == 0 && i >= 0; i--)
        RETURNS(0, braid_wait(ops[i], -1));
    for (int i = 0; way == 1 && i < n; i++) {
        do
            RETURNS(0, braid_test(ops[i], &done));
        while (!done);
        SAYS(-EINVAL, "not there any more", braid_wait(ops[i], 0));
    }
    for (int i = 0; way == 2 && i < n; i++) {
        RETURNS(0, braid_wait_any(ops, (size_t)n, &index, -1));
        CHECK(index < (size_t)n && !ops[index], "entry %zu", index);
    }
    if (way == 3)
        RETURNS(0, braid_wait_all(ops, (size_t)n, -1));
    return 0;
}
