/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs commands on hosts of a BCube, here, in the emulation or over ssh, with pipes for stdin,
 * stdout and stderr. A command gets a process group of its own and ends when the caller's process
 * does (over ssh the remote command ends at its next read or write). For processes with one thread;
 * nothing here is thread-safe.
 */
#ifndef BR_TOOLS_TESTBED_REMOTE_H
#define BR_TOOLS_TESTBED_REMOTE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum br_remote_kind {
    BR_REMOTE_HERE,      /* this machine, as we are: emulation without namespaces */
    BR_REMOTE_NAMESPACE, /* `where` is the name of a network namespace */
    BR_REMOTE_SSH,       /* `where` is what ssh takes: root@10.0.0.1, an alias of ~/.ssh/config */
};

/* A place to run commands at. The texts belong to the caller and must outlive what is started. */
struct br_remote_host {
    enum br_remote_kind kind;
    const char *name;  /* of the host, for messages */
    const char *where; /* NULL for BR_REMOTE_HERE */
};

/* One running command. */
struct br_remote {
    const struct br_remote_host *host;
    pid_t pid;        /* leads its group; 0: none */
    int in, out, err; /* our ends of its pipes, non-blocking; -1: closed */
};

/*
 * Starts argv (NULL-terminated; found by the far host's PATH; every argument arrives as it is, over
 * ssh too). Blocks until the command has been executed, over ssh only until ssh has. Writing to a
 * command that has ended gives EPIPE: the caller ignores SIGPIPE. Negative errno with a message
 * that names the host: -ENOENT no such command or namespace, -EPERM not root.
 */
int br_remote_start(struct br_remote *remote, const struct br_remote_host *host,
                    char *const argv[]);

/*
 * Closes the pipes and waits for the end; what has not ended after `grace_ms` is killed with all of
 * its group. Returns the exit code, 128 + the signal that killed it. -EHOSTUNREACH with a message
 * where ssh could not reach the host (its code 255).
 */
int br_remote_end(struct br_remote *remote, int grace_ms);

/* Puts `argument` into single quotes for a shell, with its own ones escaped: what arrives at the
 * far end of ssh. Owned by the caller; NULL: no memory. */
char *br_remote_quote(const char *argument);

#endif
