/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A running rank lets itself be looked at: its counters on a local socket (base/serve.h), for `braid top` and Prometheus (doc/stats.md).
 *
 * 1. A thread that sleeps until somebody asks. It takes the family's lock for a snapshot, as braid_stats() does, and makes the text without
 *    it. Rejected: counters that are read without the lock, as atomics: queues could not be counted, and numbers would not belong together.
 * 2. What cannot be served is said at level info, and the job goes on without.
 * 3. The name has job, rank and process. JOB is a digest of a key of its own (protocol/bootstrap/secret.h) and the port; a job of one rank has
 *    neither and takes the process.
 */
#include "collectives/comm.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/log.h"
#include "base/serve.h"
#include "collectives/snapshot.h"

/* Everything of the first communicator, which is the job's. */
static int take(struct br_family *family, struct br_snapshot *s)
{
    struct braid_comm *comm = family->first;

    *s = (struct br_snapshot){.rank = family->rank, .size = family->size, .pid = (int)getpid()};
    snprintf(s->job, sizeof s->job, "%s", family->job);
    s->n_peers = braid_peer_stats(comm, NULL, 0);
    s->n_rails = braid_rail_stats(comm, NULL, 0);
    s->peers = calloc((size_t)s->n_peers + 1, sizeof *s->peers);
    s->rails = calloc((size_t)s->n_rails + 1, sizeof *s->rails);
    if (!s->peers || !s->rails) {
        br_snapshot_free(s);
        return -ENOMEM;
    }
    br_gate_lock(family);
    br_insight_take(comm, s);
    br_gate_unlock(family);
    s->at = br_comm_now(comm);
    return 0;
}

static char *make_json(void *family)
{
    struct br_snapshot s;
    char *text;

    if (take(family, &s))
        return NULL;
    text = br_snapshot_json(&s);
    br_snapshot_free(&s);
    return text;
}

static char *make_prometheus(void *family)
{
    struct br_snapshot s;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out;

    if (take(family, &s))
        return NULL;
    out = open_memstream(&text, &bytes);
    if (out) {
        br_snapshot_prometheus(&s, 1, out);
        fclose(out);
    }
    br_snapshot_free(&s);
    return text;
}

static const struct br_served pages[] = {
    {"/stats", "application/json", make_json},
    {"/metrics", "text/plain; version=0.0.4", make_prometheus},
    {0},
};

static void name_job(struct br_family *family)
{
    static _Atomic uint32_t families; /* of this process */
    uint64_t words[] = {br_secret_number(&family->settings.secret, BR_SECRET_JOB_NAME),
                        family->settings.environment.port, family->size == 1 ? (uint64_t)getpid() : 0,
                        family->size == 1 ? ++families : 0};

    snprintf(family->job, sizeof family->job, "%08x", (unsigned)(br_digest(words, 4) >> 32));
}

/* Names that processes have left which were killed. Whether one is really gone says its socket, as it may count its processes apart. */
static void sweep(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[800], job[BR_JOB_TEXT];
    int rank, pid;

    while (dir && (entry = readdir(dir))) {
        if (!br_socket_parse(entry->d_name, job, &rank, &pid) || !kill(pid, 0) || errno != ESRCH)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        br_serve_forget(path);
    }
    if (dir)
        closedir(dir);
}

int br_observe_open(struct br_family *family)
{
    const char *wanted = family->settings.stats;
    char folder[512], path[600];
    int rc;

    if (!strcmp(wanted, "off"))
        return 0;
    name_job(family);
    rc = br_serve_folder(wanted[0] ? wanted : NULL, folder, sizeof folder);
    if (!rc) {
        sweep(folder);
        snprintf(path, sizeof path, "%s/" BR_RANK_SOCKET, folder, family->job, family->rank, (int)getpid());
        rc = br_serve_open(path, pages, family, &family->serve);
    }
    if (rc)
        br_log_info("rank %d: `braid top` will not see it: %s", family->rank, br_error_words());
    return 0;
}

void br_observe_close(struct br_family *family)
{
    br_serve_close(family->serve);
    family->serve = NULL;
}
