/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/remote.h"

#include "base/clock.h"
#include "base/error.h"
#include "tools/testbed/namespace.h"
#include "tools/run/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SSH_LOST 255 /* ssh's exit code for its own errors */
#define STEP_MS  5   /* between looks for the end of a process */

char *br_remote_quote(const char *argument)
{
    size_t quotes = 0;
    char *text, *to;

    for (const char *c = argument; *c; c++)
        quotes += *c == '\'';
    text = malloc(strlen(argument) + 3 * quotes + 3);
    if (!text)
        return NULL;
    to = text;
    *to++ = '\'';
    for (const char *c = argument; *c; c++) {
        if (*c == '\'')
            to = stpcpy(to, "'\\'");
        *to++ = *c;
    }
    *to++ = '\'';
    *to = 0;
    return text;
}

static int remote_enter(const void *where)
{
    const struct br_remote_host *host = where;

    return br_namespace_enter(host->where, host->name);
}

/* ssh's own arguments, then the command as one quoted line. NULL: no memory. free() the result; the
 * texts stay valid as long as *line, to be freed too. */
static char **ssh_argv(const struct br_remote_host *host, char *const argv[], char **line)
{
    static const char *const options[] = {"ssh",
                                          "-oBatchMode=yes",
                                          "-oConnectTimeout=10",
                                          "-oServerAliveInterval=5",
                                          "-oServerAliveCountMax=3",
                                          "-T",
                                          "--"};
    const size_t n = sizeof options / sizeof *options;
    char **all = calloc(n + 3, sizeof *all);
    size_t bytes = 0;
    FILE *stream = open_memstream(line, &bytes);

    for (size_t i = 0; all && i < n; i++)
        all[i] = (char *)(uintptr_t)options[i];
    for (size_t i = 0; stream && argv[i]; i++) {
        char *quoted = br_remote_quote(argv[i]);

        fprintf(stream, "%s%s", i ? " " : "", quoted ? quoted : "");
        free(quoted);
    }
    if (!all || !stream || fclose(stream) != 0) {
        free(all);
        return NULL;
    }
    all[n] = (char *)(uintptr_t)host->where;
    all[n + 1] = *line;
    return all;
}

/* Pipes for 0, 1, 2: ours are left in *reach, the command's in *start. */
static int open_pipes(struct br_remote *remote, struct br_run_process_options *start)
{
    int *ours[3] = {&remote->in, &remote->out, &remote->err},
        *theirs[3] = {&start->in, &start->out, &start->err};

    for (int i = 0; i < 3; i++) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
            return br_error(errno, "no pipe: %s", strerror(errno));
        *ours[i] = ends[i == 0];
        *theirs[i] = ends[i != 0];
        fcntl(*ours[i], F_SETFL, O_NONBLOCK);
    }
    return 0;
}

static void remote_shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void shut_all(struct br_remote *remote)
{
    remote_shut(&remote->in);
    remote_shut(&remote->out);
    remote_shut(&remote->err);
}

int br_remote_start(struct br_remote *remote, const struct br_remote_host *host, char *const argv[])
{
    struct br_run_process_options start = {.in = -1, .out = -1, .err = -1, .argv = argv};
    char *line = NULL, **ssh = NULL;
    int rc;

    *remote = (struct br_remote){.host = host, .in = -1, .out = -1, .err = -1};
    if (host->kind == BR_REMOTE_NAMESPACE) {
        start.enter = remote_enter;
        start.where = host;
    } else if (host->kind == BR_REMOTE_SSH) {
        start.argv = ssh = ssh_argv(host, argv, &line);
    }
    rc = start.argv ? open_pipes(remote, &start) : br_error(ENOMEM, "no memory for a command");
    if (rc == 0)
        rc = br_run_process_start(NULL, &start, &remote->pid);
    if (rc < 0) {
        remote->pid = 0;
        shut_all(remote);
        br_error_prefix(rc, "host %s: ", host->name);
    }
    remote_shut(&start.in);
    remote_shut(&start.out);
    remote_shut(&start.err);
    free(ssh);
    free(line);
    return rc;
}

/* Takes the end of the process, if it has come: the group goes with it. */
static bool remote_ended(struct br_remote *remote, int *status)
{
    siginfo_t info = {0};

    /* Looks first: until it is reaped its number is its group's and nobody else's. */
    if (waitid(P_PID, (id_t)remote->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && !info.si_pid)
        return false;
    kill(-remote->pid, SIGKILL);
    if (waitpid(remote->pid, status, 0) < 0)
        *status = 127 << 8; /* somebody else has reaped it */
    remote->pid = 0;
    return true;
}

static int remote_code_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int br_remote_end(struct br_remote *remote, int grace_ms)
{
    uint64_t kill_at = br_clock_now() + (uint64_t)grace_ms * BR_MS;
    int status = 0;

    shut_all(remote);
    while (!remote_ended(remote, &status)) {
        if (br_clock_now() >= kill_at)
            kill(-remote->pid, SIGKILL);
        usleep(STEP_MS * 1000);
    }
    if (remote->host->kind == BR_REMOTE_SSH && remote_code_of(status) == SSH_LOST)
        return br_error(EHOSTUNREACH, "host %s: ssh %s failed", remote->host->name,
                        remote->host->where);
    return remote_code_of(status);
}
