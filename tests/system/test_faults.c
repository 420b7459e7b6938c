/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens to a job of real processes when something breaks in the middle of an all-reduce: every survivor ends with
 * words that name the rank, within the time that was configured; nothing hangs, nothing stays behind.
 *
 * The ranks are `braid allreduce` processes that run until they fail, started without `braid run`, which would end the
 * survivors before they could say what they saw.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS        4
#define PEER_TIMEOUT 2  /* s: BRAID_PEER_TIMEOUT */
#define MARGIN       10 /* s on top, for a loaded machine and sanitizers */

struct job {
    char folder[64];
    pid_t pids[RANKS];    /* 0: ended */
    pid_t started[RANKS]; /* the same, kept */
    int codes[RANKS];     /* wait status; valid once pids[] is 0 */
    int port;
    char secret[33];
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void nap(void)
{
    struct timespec t = {.tv_nsec = 10000000};
    nanosleep(&t, NULL);
}

/* ---- a job ------------------------------------------------------------------------------------------------ */

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void path_of(const struct job *job, int rank, const char *what, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s/%d.%s", job->folder, rank, what);
}

/* In the child: becomes one rank. */
static void become(const struct job *job, int rank, const char *const *arguments)
{
    char path[96];
    const char *words[24] = {"braid", "allreduce"};
    int n = 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    path_of(job, rank, "out", path, sizeof path);
    dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), STDOUT_FILENO);
    path_of(job, rank, "err", path, sizeof path);
    dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), STDERR_FILENO);
    set_number("RANK", rank);
    set_number("WORLD_SIZE", RANKS);
    set_number("LOCAL_RANK", rank);
    set_number("LOCAL_WORLD_SIZE", RANKS);
    set_number("MASTER_PORT", job->port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("BRAID_SECRET", job->secret, 1);
    set_number("BRAID_INIT_TIMEOUT", 60);
    set_number("BRAID_TIMEOUT", 60);
    set_number("BRAID_PEER_TIMEOUT", PEER_TIMEOUT);
    while (*arguments)
        words[n++] = *arguments++;
    snprintf(path, sizeof path, "%s/braid", getenv("BRAID_BUILD"));
    execv(path, (char **)words);
    _exit(127);
}

static void start(struct job *job, const char *const *arguments)
{
    uint64_t random[2];
    memset(job, 0, sizeof *job);
    snprintf(job->folder, sizeof job->folder, "/tmp/braid_faults_XXXXXX");
    assert_non_null(mkdtemp(job->folder));
    assert_int_equal(getrandom(random, sizeof random, 0), sizeof random);
    snprintf(job->secret, sizeof job->secret, "%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    job->port = free_port();
    for (int rank = 0; rank < RANKS; rank++) {
        job->pids[rank] = fork();
        assert_true(job->pids[rank] >= 0);
        if (job->pids[rank] == 0)
            become(job, rank, arguments);
        job->started[rank] = job->pids[rank];
    }
}

static void read_file(const struct job *job, int rank, const char *what, char *out, size_t bytes)
{
    char path[96];
    path_of(job, rank, what, path, sizeof path);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(out, 1, bytes - 1, file) : 0;
    out[length] = 0;
    if (file)
        fclose(file);
}

static bool ended(struct job *job, int rank)
{
    if (job->pids[rank] && waitpid(job->pids[rank], &job->codes[rank], WNOHANG) == job->pids[rank])
        job->pids[rank] = 0;
    return job->pids[rank] == 0;
}

/* Kills what is left and removes the files. */
static void clear(struct job *job)
{
    char path[96];
    for (int rank = 0; rank < RANKS; rank++) {
        if (job->pids[rank]) {
            kill(job->pids[rank], SIGKILL);
            waitpid(job->pids[rank], NULL, 0);
        }
        path_of(job, rank, "out", path, sizeof path);
        unlink(path);
        path_of(job, rank, "err", path, sizeof path);
        unlink(path);
    }
    rmdir(job->folder);
}

static void print_job(const struct job *job)
{
    char text[4096];
    for (int rank = 0; rank < RANKS; rank++) {
        read_file(job, rank, "err", text, sizeof text);
        print_error("rank %d (%s, status %#x): %s\n", rank, job->pids[rank] ? "running" : "ended",
                    job->codes[rank], text);
    }
}

#define CHECK(job, condition, ...)                                                                           \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            print_job(job);                                                                                  \
            clear(job);                                                                                      \
            fail_msg(__VA_ARGS__);                                                                           \
        }                                                                                                    \
    } while (0)

/* Until the ranks are in the middle of their calls. */
static void wait_busy(struct job *job)
{
    char text[4096] = "";
    double limit = seconds() + 60;
    while (!strstr(text, "#wrong")) {
        for (int rank = 0; rank < RANKS; rank++)
            CHECK(job, !ended(job, rank), "rank %d ended before the fault", rank);
        CHECK(job, seconds() < limit, "the job did not start");
        nap();
        read_file(job, 0, "out", text, sizeof text);
    }
    for (int i = 0; i < 30; i++)
        nap();
}

/* All ranks but `except` (-1: none) end within the time; returns how long the last one took. */
static double wait_ended(struct job *job, int except, double limit)
{
    double from = seconds();
    for (int rank = 0; rank < RANKS; rank++)
        while (rank != except && !ended(job, rank)) {
            CHECK(job, seconds() < from + limit, "rank %d hangs for more than %.0f s", rank, limit);
            nap();
        }
    return seconds() - from;
}

/* Every rank but the lost one has failed with words that name it. */
static void check_words(struct job *job, int lost)
{
    char text[4096], name[16];
    snprintf(name, sizeof name, "rank %d", lost);
    for (int rank = 0; rank < RANKS; rank++) {
        if (rank == lost)
            continue;
        read_file(job, rank, "err", text, sizeof text);
        CHECK(job, WIFEXITED(job->codes[rank]) && WEXITSTATUS(job->codes[rank]) == 1,
              "rank %d: must exit with 1", rank);
        CHECK(job, strstr(text, name), "the words of rank %d do not name rank %d", rank, lost);
    }
}

/* ---- nothing stays behind --------------------------------------------------------------------------------- */

/* Names that braid makes carry the number of the process. */
static bool is_of(const struct job *job, const char *text)
{
    char name[32];
    for (int rank = 0; rank < RANKS; rank++) {
        snprintf(name, sizeof name, "braid-%d-", (int)job->started[rank]);
        if (strstr(text, name))
            return true;
    }
    return false;
}

static int leftovers(const struct job *job)
{
    char line[512];
    int count = 0;
    struct dirent *entry;
    DIR *folder = opendir("/dev/shm");
    while (folder && (entry = readdir(folder)))
        count += is_of(job, entry->d_name);
    if (folder)
        closedir(folder);
    FILE *sockets = fopen("/proc/net/unix", "r");
    while (sockets && fgets(line, sizeof line, sockets))
        count += is_of(job, line);
    if (sockets)
        fclose(sockets);
    return count;
}

/* What the job had in the machine's name spaces goes with its processes. */
static void check_clean(struct job *job)
{
    double limit = seconds() + 2;
    while (leftovers(job) && seconds() < limit)
        nap();
    CHECK(job, leftovers(job) == 0, "%d segments or sockets are left", leftovers(job));
    clear(job);
}

/* ---- faults ----------------------------------------------------------------------------------------------- */

#define ENDLESS(backend)                                                                                     \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        "-b", "4M", "-e", "4M", "-n", "100000000", "-c", "0", "--backend", backend, NULL                     \
    }

static void kill_one(const char *backend)
{
    struct job job;
    start(&job, ENDLESS(backend));
    wait_busy(&job);
    CHECK(&job, strcmp(backend, "shm") || leftovers(&job), "shm: sockets must show before the fault");
    kill(job.pids[2], SIGKILL);
    wait_ended(&job, -1, PEER_TIMEOUT + MARGIN);
    check_words(&job, 2);
    check_clean(&job);
}

static void stop_one(const char *backend)
{
    struct job job;
    start(&job, ENDLESS(backend));
    wait_busy(&job);
    kill(job.pids[1], SIGSTOP);
    wait_ended(&job, 1, PEER_TIMEOUT + MARGIN);
    check_words(&job, 1);
    kill(job.pids[1], SIGCONT); /* it finds its peers gone */
    wait_ended(&job, -1, PEER_TIMEOUT + MARGIN);
    check_clean(&job);
}

static void allreduce__survivors_name_a_killed_rank_uring(void **state)
{
    (void)state;
    kill_one("uring");
}

static void allreduce__survivors_name_a_killed_rank_shm(void **state)
{
    (void)state;
    kill_one("shm");
}

static void allreduce__survivors_name_a_stopped_rank_uring(void **state)
{
    (void)state;
    stop_one("uring");
}

static void allreduce__survivors_name_a_stopped_rank_shm(void **state)
{
    (void)state;
    stop_one("shm");
}

/* Shuts connected TCP sockets of another process down, at most `most`; returns how many. */
static int shut_sockets(pid_t pid, int most)
{
    char path[64];
    int count = 0, process = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(process >= 0);
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    struct dirent *entry;
    while (count < most && (entry = readdir(folder))) {
        struct sockaddr_storage peer;
        socklen_t length = sizeof peer;
        int fd = (int)syscall(SYS_pidfd_getfd, process, atoi(entry->d_name), 0);
        if (fd < 0)
            continue;
        if (!getpeername(fd, (struct sockaddr *)&peer, &length) && peer.ss_family != AF_UNIX)
            count += shutdown(fd, SHUT_RDWR) == 0;
        close(fd);
    }
    closedir(folder);
    close(process);
    return count;
}

/* All connections of a rank at once: nobody can tell this from its death. */
static void allreduce__all_sockets_of_a_rank_closed(void **state)
{
    (void)state;
    struct job job;
    start(&job, ENDLESS("uring"));
    wait_busy(&job);
    CHECK(&job, shut_sockets(job.pids[3], 1000) > 0, "rank 3 has no TCP sockets");
    wait_ended(&job, -1, PEER_TIMEOUT + MARGIN);
    for (int rank = 0; rank < RANKS; rank++)
        CHECK(&job, WIFEXITED(job.codes[rank]) && WEXITSTATUS(job.codes[rank]) == 1,
              "rank %d: must exit with 1", rank);
    check_words(&job, 3);
    check_clean(&job);
}

/* One connection after the other: the job goes on over the other rails with right results, or ends with words. */
static void allreduce__one_socket_of_two_rails_closed(void **state)
{
    (void)state;
    static const char *const arguments[] = {"-b", "8M",      "-e", "8M",        "-n",    "60", "-c",
                                            "2",  "--rails", "2",  "--backend", "uring", NULL};
    struct job job;
    char text[4096];
    int failures = 0;
    start(&job, arguments);
    wait_busy(&job);
    shut_sockets(job.pids[1], 1);
    wait_ended(&job, -1, 60);
    for (int rank = 0; rank < RANKS; rank++) {
        read_file(&job, rank, "err", text, sizeof text);
        bool good = WIFEXITED(job.codes[rank]) && WEXITSTATUS(job.codes[rank]) == 0;
        failures += !good;
        CHECK(&job, good || strstr(text, "rank "), "rank %d failed without words", rank);
        CHECK(&job, !strstr(text, "wrong elements"), "rank %d has wrong results", rank);
    }
    CHECK(&job, failures == 0 || failures == RANKS, "%d of %d ranks failed: all or none", failures, RANKS);
    check_clean(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce__survivors_name_a_killed_rank_uring),
        cmocka_unit_test(allreduce__survivors_name_a_killed_rank_shm),
        cmocka_unit_test(allreduce__survivors_name_a_stopped_rank_uring),
        cmocka_unit_test(allreduce__survivors_name_a_stopped_rank_shm),
        cmocka_unit_test(allreduce__all_sockets_of_a_rank_closed),
        cmocka_unit_test(allreduce__one_socket_of_two_rails_closed),
    };
    if (!getenv("BRAID_BUILD")) {
        fprintf(stderr, "set BRAID_BUILD to the folder of the command braid\n");
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
