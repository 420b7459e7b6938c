/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/top/top.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/http.h"

#define PATIENCE_MS 1000

static int jobs_in_order(const void *a, const void *b)
{
    const struct br_rank_socket *x = a, *y = b;
    int jobs = strcmp(x->job, y->job);

    return jobs                 ? jobs
           : x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank)
                                : x->pid - y->pid;
}

/* One more place; NULL: no memory. */
static struct br_rank_socket *jobs_add(struct br_rank_socket **sockets, int n)
{
    struct br_rank_socket *more = *sockets;

    if ((n & (n - 1)) == 0) /* a power of two, or none: full */
        more = realloc(*sockets, (n ? (size_t)n * 2 : 1) * sizeof *more);
    if (!more)
        return NULL;
    *sockets = more;
    return &more[n];
}

int br_jobs_find(const char *folder, struct br_rank_socket **out, int *gone)
{
    DIR *dir = opendir(folder);
    struct br_rank_socket *sockets = NULL, *s;
    struct dirent *entry;
    int n = 0;

    *gone = 0;
    *out = NULL;
    if (!dir)
        return errno == ENOENT ? 0 : br_error(errno, "%s: %s", folder, strerror(errno));
    while ((entry = readdir(dir))) {
        struct br_rank_socket found;
        int length;

        if (!br_socket_parse(entry->d_name, found.job, &found.rank, &found.pid))
            continue;
        length = snprintf(found.path, sizeof found.path, "%s/%s", folder, entry->d_name);
        if (length >= (int)sizeof found.path)
            continue;
        if (br_http_forget(found.path)) {
            ++*gone;
            continue;
        }
        s = jobs_add(&sockets, n);
        if (!s)
            break;
        *s = found;
        s->name[0] = '\0';
        n++;
    }
    closedir(dir);
    if (n)
        qsort(sockets, (size_t)n, sizeof *sockets, jobs_in_order);
    *out = sockets;
    return n;
}

void br_jobs_name(struct br_rank_socket *sockets, int n)
{
    for (int i = 0; i < n; i++) {
        struct br_snapshot snapshot;
        char *text = NULL;

        if (i && !strcmp(sockets[i].job, sockets[i - 1].job)) {
            memcpy(sockets[i].name, sockets[i - 1].name, sizeof sockets[i].name);
            continue;
        }
        sockets[i].name[0] = '\0';
        if (!br_http_ask(sockets[i].path, "/stats", PATIENCE_MS, &text) &&
            !br_snapshot_parse(text, &snapshot)) {
            memcpy(sockets[i].name, snapshot.name, sizeof sockets[i].name);
            br_snapshot_free(&snapshot);
        }
        free(text);
    }
}

int br_jobs_ask(const struct br_rank_socket *sockets, int n, struct br_snapshot *snapshots)
{
    int answered = 0;

    for (int i = 0; i < n; i++) {
        char *text = NULL;
        int rc = br_http_ask(sockets[i].path, "/stats", PATIENCE_MS, &text);

        if (!rc)
            rc = br_snapshot_parse(text, &snapshots[answered]);
        if (rc)
            fprintf(stderr, "braid top: rank %d (process %d) does not answer: %s\n",
                    sockets[i].rank, sockets[i].pid, br_error_message());
        else
            answered++;
        free(text);
    }
    return answered;
}
