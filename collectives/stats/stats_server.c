/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Serves the counters of a running rank on a local socket (base/http.h), for `braid top` and
 * Prometheus (doc/stats.md).
 *
 * 1. A thread that sleeps until somebody asks. It takes the context's lock for a snapshot, as
 *    braid_stats() does, and makes the text without it. Rejected: counters that are read without
 *    the lock, as atomics: queues could not be counted, and numbers would not belong together.
 * 2. What cannot be served is said at level info, and the job goes on without.
 * 3. The name has job, rank and process. JOB is a digest of a key of its own
 *    (protocol/bootstrap/secret.h) and the port; a job of one rank has neither and takes the
 *    process.
 */
#include "collectives/stats/stats_server.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/http.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/stats/snapshot.h"
#include "collectives/stats/statistics.h"
#include "protocol/bootstrap/secret.h"

/* Fills *s from the communicator of all ranks. */
static int stats_server_take(struct br_context *context, struct br_snapshot *s)
{
    struct braid_comm *comm = context->world;

    *s = (struct br_snapshot){.rank = context->rank, .size = context->size, .pid = (int)getpid()};
    snprintf(s->job, sizeof s->job, "%s", context->job);
    s->n_peers = braid_peer_stats(comm, NULL, 0);
    s->n_rails = braid_rail_stats(comm, NULL, 0);
    s->peers = calloc((size_t)s->n_peers + 1, sizeof *s->peers);
    s->rails = calloc((size_t)s->n_rails + 1, sizeof *s->rails);
    if (!s->peers || !s->rails) {
        br_snapshot_free(s);
        return -ENOMEM;
    }
    br_progress_lock(context);
    br_statistics_take(comm, s);
    snprintf(s->name, sizeof s->name, "%s", context->name);
    br_progress_unlock(context);
    s->at = br_comm_now(comm);
    return 0;
}

int braid_job_name(struct braid_comm *comm, const char *name)
{
    BR_DISABLE_CANCELLATION;
    int rc = br_comm_check(comm, "braid_job_name");
    char kept[BR_JOB_NAME];
    size_t n;

    if (rc)
        return rc;
    if (!name)
        return br_error(EINVAL, "braid_job_name: name is NULL");
    n = strnlen(name, sizeof kept - 1);
    while (n && ((uint8_t)name[n] & 0xc0) == 0x80) /* in the midst of a UTF-8 character */
        n--;
    memcpy(kept, name, n);
    kept[n] = 0;
    br_text_clean(kept, false);
    br_progress_lock(comm->context);
    strcpy(comm->context->name, kept);
    br_progress_unlock(comm->context);
    return 0;
}

static char *make_json(void *family)
{
    struct br_snapshot s;
    char *text;

    if (stats_server_take(family, &s))
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

    if (stats_server_take(family, &s))
        return NULL;
    out = open_memstream(&text, &bytes);
    if (out) {
        br_snapshot_prometheus(&s, 1, out);
        fclose(out);
    }
    br_snapshot_free(&s);
    return text;
}

static const struct br_http_page pages[] = {
    {"/stats", "application/json", make_json},
    {"/metrics", "text/plain; version=0.0.4", make_prometheus},
    {0},
};

static void name_job(struct br_context *context)
{
    static _Atomic uint32_t families; /* of this process */
    uint64_t words[] = {br_secret_number(&context->settings.secret, BR_SECRET_JOB_NAME),
                        context->settings.environment.port,
                        context->size == 1 ? (uint64_t)getpid() : 0,
                        context->size == 1 ? ++families : 0};

    snprintf(context->job, sizeof context->job, "%08x", (unsigned)(br_digest(words, 4) >> 32));
}

/* Removes the sockets of processes that were killed. Only the socket tells whether its process is
 * gone, because that may be in another PID namespace. */
static void stats_server_remove_stale(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[800], job[BR_JOB_TEXT];
    int rank, pid;

    while (dir && (entry = readdir(dir))) {
        if (!br_socket_parse(entry->d_name, job, &rank, &pid) || !kill(pid, 0) || errno != ESRCH)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        br_http_forget(path);
    }
    if (dir)
        closedir(dir);
}

int br_stats_server_open(struct br_context *context)
{
    const char *wanted = context->settings.stats;
    char folder[512], path[600];
    int rc;

    if (!strcmp(wanted, "off"))
        return 0;
    name_job(context);
    rc = br_http_folder(wanted[0] ? wanted : NULL, folder, sizeof folder);
    if (!rc) {
        stats_server_remove_stale(folder);
        snprintf(path, sizeof path, "%s/" BR_RANK_SOCKET, folder, context->job, context->rank,
                 (int)getpid());
        rc = br_http_open(path, pages, context, &context->stats_server);
    }
    if (rc && wanted[0])
        br_log_warn("BRAID_STATS: `braid top` will not see rank %d: %s", context->rank,
                    br_error_message());
    else if (rc)
        br_log_info("`braid top` will not see rank %d: %s", context->rank, br_error_message());
    return 0;
}

void br_stats_server_close(struct br_context *context)
{
    br_http_close(context->stats_server);
    context->stats_server = NULL;
}
