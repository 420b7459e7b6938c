/* SPDX-License-Identifier: BSD-3-Clause */
#include "job.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/says.h"

/* only what hangs takes so long, also on a machine that stands still for a moment */
#define HANGS (60 * BR_SEC)
#define LEFT  (10 * BR_SEC) /* the kernel needs a moment to tidy up behind a process */

/* ---- a world of our own ---------------------------------------------------------------------- */

static void __attribute__((noreturn)) give_up(const char *what)
{
    printf("skipped: %s: %s; it takes root, and a container that lets it\n", what, strerror(errno));
    fflush(stdout);
    _exit(77);
}

static void loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request))
        give_up("loopback up");
    close(fd);
}

static void mount_own(void)
{
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("proc", "/proc", "proc", 0, NULL) || mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL) ||
        mount("tmpfs", "/run", "tmpfs", 0, NULL))
        give_up("mounts of our own");
}

/* Process 1 of the namespace: its children are the test and every unacknowledged message. All end
 * with it. */
static void be_first(pid_t test)
{
    int status;
    pid_t pid;

    do
        pid = wait(&status);
    while (pid != test);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void wait_for(pid_t first)
{
    int status;

    while (waitpid(first, &status, 0) < 0 && errno == EINTR)
        ;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

void job_isolate(void)
{
    const char *build = getenv("BRAID_BUILD");
    char path[4096];
    pid_t pid;

    if (!build) {
        fputs("BRAID_BUILD is not set: run this by ctest\n", stderr);
        exit(1);
    }
    snprintf(path, sizeof path, "%s/braid run", build);
    setenv("run", path, 1);
    setenv("self", realpath("/proc/self/exe", path), 1);
    if (getenv("BRAID_TEST_ISOLATED")) /* tests/isolated.sh has done it */
        return;
    if (unshare((geteuid() ? CLONE_NEWUSER : 0) | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                CLONE_NEWIPC))
        give_up("namespaces");
    pid = fork();
    if (pid)
        wait_for(pid);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mount_own();
    loopback_up();
    pid = fork();
    if (pid)
        be_first(pid);
}

/* ---- a job ----------------------------------------------------------------------------------- */

static void stop(struct job *job)
{
    if (!job->launcher)
        return;
    kill(job->launcher, SIGKILL); /* the ranks end with it */
    waitpid(job->launcher, NULL, 0);
    close(job->from);
    job->launcher = 0;
}

void job_start(struct job *job, const char *format, ...)
{
    char line[4096];
    va_list args;
    int ends[2];

    va_start(args, format);
    assert_in_range(vsnprintf(line, sizeof line, format, args), 1, sizeof line - 1);
    va_end(args);
    stop(job); /* a test that failed has left it */
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    job->from = ends[0];
    job->bytes = 0;
    job->text[0] = 0;
    job->launcher = fork();
    if (!job->launcher) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
}

static void __attribute__((noreturn)) complain(struct job *job, const char *what, const char *text)
{
    stop(job);
    fail_msg("%s%s; the job said:\n%s", what, text, job->text);
    abort();
}

/* Takes more output, waiting until `deadline` at most; false: it has come, or the output has
 * ended. */
static bool read_more(struct job *job, uint64_t deadline)
{
    struct pollfd fd = {.fd = job->from, .events = POLLIN};
    uint64_t now = br_clock_now();
    ssize_t n;

    if (now >= deadline || poll(&fd, 1, (int)((deadline - now) / BR_MS) + 1) <= 0)
        return false;
    n = read(job->from, job->text + job->bytes, sizeof job->text - 1 - job->bytes);
    if (n <= 0)
        return false;
    job->bytes += (size_t)n;
    job->text[job->bytes] = 0;
    return true;
}

static int count(const struct job *job, const char *text)
{
    int n = 0;

    for (const char *at = job->text; (at = strstr(at, text)); at += strlen(text))
        n++;
    return n;
}

static uint64_t hangs_at(void)
{
    const char *sanitize = getenv("BRAID_SANITIZE");

    return br_clock_now() + (sanitize && *sanitize ? 4 : 1) * HANGS;
}

void job_says(struct job *job, const char *text, int times)
{
    uint64_t deadline = hangs_at();

    while (count(job, text) < times)
        if (!read_more(job, deadline))
            complain(job, "not said: ", text);
}

void job_ready(struct job *job, int ranks)
{
    job_says(job, "] ready ", ranks);
}

static const char *find_line(const struct job *job, int rank, const char *text)
{
    char start[64];
    size_t n = (size_t)snprintf(start, sizeof start, "[%d] %s", rank, text);

    for (const char *at = job->text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (!strncmp(at, start, n))
            return at + n;
    }
    return NULL;
}

const char *job_line(const struct job *job, int rank, const char *text, char *line, size_t bytes)
{
    const char *at = find_line(job, rank, text);

    if (!at)
        fail_msg("rank %d has no line \"%s\" in:\n%s", rank, text, job->text);
    snprintf(line, bytes, "%.*s", (int)strcspn(at, "\n"), at);
    return line;
}

bool job_has_line(const struct job *job, int rank, const char *text)
{
    return find_line(job, rank, text);
}

pid_t job_pid(const struct job *job, int rank)
{
    char line[64];

    return atoi(job_line(job, rank, "ready ", line, sizeof line));
}

void job_signal(const struct job *job, int rank, int number)
{
    assert_int_equal(kill(job_pid(job, rank), number), 0);
}

bool job_has(const struct job *job, const char *text)
{
    return strstr(job->text, text);
}

void job_must_have(const struct job *job, const char *nouns)
{
    static char line[sizeof job->text];

    for (const char *at = job->text; *at; at += *at == '\n') {
        size_t bytes = strcspn(at, "\n");

        memcpy(line, at, bytes);
        line[bytes] = 0;
        if (says_all(line, nouns))
            return;
        at += bytes;
    }
    fail_msg("no line names all of \"%s\" in:\n%s", nouns, job->text);
}

/* ---- what is left ---------------------------------------------------------------------------- */

/* Lines of a table in /proc that contain the words, the last of them in `line`. */
static int lines_with(const char *path, const char *text, char *line, size_t bytes)
{
    FILE *file = fopen(path, "re");
    char next[512];
    int n = 0;

    while (file && fgets(next, sizeof next, file))
        if (strstr(next, text)) {
            n++;
            snprintf(line, bytes, "%s", next);
        }
    if (file)
        fclose(file);
    return n;
}

/* Entries of a folder that begin with a digit (numbers), or that do not begin with a dot. */
static int entries(const char *path, bool numbers)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int n = 0;

    while (dir && (entry = readdir(dir)))
        n += numbers ? isdigit((unsigned char)entry->d_name[0]) != 0 : entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

static const char *what_is_left(void)
{
    static char text[600];
    char line[512];

    if (entries("/proc", true) > 2)
        return "a process is left";
    if (entries("/dev/shm", false))
        return "a file in /dev/shm is left";
    if (lines_with("/proc/net/unix", "@", line, sizeof line) ||
        lines_with("/proc/net/tcp", " 0A ", line, sizeof line) ||
        lines_with("/proc/net/tcp6", " 0A ", line, sizeof line)) {
        snprintf(text, sizeof text, "a socket is left: %s", line);
        return text;
    }
    return NULL;
}

int job_end(struct job *job)
{
    uint64_t deadline = hangs_at(), left_until;
    const char *left;
    int status;

    while (read_more(job, deadline))
        ;
    while (waitpid(job->launcher, &status, WNOHANG) == 0) {
        if (br_clock_now() > deadline)
            complain(job, "it has not ended in time", "");
        usleep(1000);
    }
    close(job->from);
    job->launcher = 0;
    left_until = br_clock_now() + LEFT;
    while ((left = what_is_left()) && br_clock_now() < left_until)
        usleep(1000);
    if (left)
        fail_msg("%s; the job said:\n%s", left, job->text);
    if (!WIFEXITED(status))
        fail_msg("killed by signal %d; the job said:\n%s", WTERMSIG(status), job->text);
    return WEXITSTATUS(status);
}

/* The TCP ports on which somebody listens, and how many connections to them nobody has accepted
 * yet. */
static int listeners(uint16_t *ports, int max, unsigned *queued)
{
    FILE *file = fopen("/proc/net/tcp", "re");
    unsigned port, state, queue;
    char line[512];
    int n = 0;

    *queued = 0;
    while (file && n < max && fgets(line, sizeof line, file))
        if (sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%x", &port, &state, &queue) ==
                3 &&
            state == 0x0a) {
            ports[n++] = (uint16_t)port;
            *queued += queue;
        }
    if (file)
        fclose(file);
    return n;
}

int job_ports(uint16_t *ports, int max)
{
    unsigned queued;

    return listeners(ports, max, &queued);
}

void job_accepted(void)
{
    uint64_t deadline = hangs_at();
    uint16_t ports[64];
    unsigned queued;

    while (listeners(ports, 64, &queued), queued) {
        assert_true(br_clock_now() < deadline);
        usleep(1000);
    }
}
