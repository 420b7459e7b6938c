/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/stats/snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/error.h"

#define IS_COUNTER               false
#define IS_GAUGE                 true
#define RANK(field, kind, words) {#field, offsetof(struct braid_stats, field), IS_##kind, words},
#define PEER(field, kind, words)                                                                   \
    {#field, offsetof(struct braid_peer_stats, field), IS_##kind, words},
#define RAIL(field, kind, words)                                                                   \
    {#field, offsetof(struct braid_rail_stats, field), IS_##kind, words},

const struct br_counter br_counters_rank[] = {BRAID_RANK_FIELDS(RANK){0}};
const struct br_counter br_counters_peer[] = {BRAID_PEER_FIELDS(PEER){0}};
const struct br_counter br_counters_rail[] = {BRAID_RAIL_FIELDS(RAIL){0}};

static uint64_t snapshot_value(const void *of, const struct br_counter *counter)
{
    return *(const uint64_t *)((const char *)of + counter->offset);
}

bool br_socket_parse(const char *name, char job[BR_JOB_TEXT], int *rank, int *pid)
{
    char again[64];

    if (sscanf(name, "%16[0-9a-f].%d.%d.sock", job, rank, pid) != 3)
        return false;
    snprintf(again, sizeof again, BR_RANK_SOCKET, job, *rank, *pid);
    return !strcmp(name, again);
}

void br_snapshot_free(struct br_snapshot *s)
{
    free(s->peers);
    free(s->rails);
    s->peers = NULL;
    s->rails = NULL;
    s->n_peers = s->n_rails = 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool add_fields(cJSON *object, const void *of, const struct br_counter *counter)
{
    for (; counter->name; counter++)
        if (!cJSON_AddNumberToObject(object, counter->name, (double)snapshot_value(of, counter)))
            return false;
    return true;
}

static cJSON *add_object(cJSON *list)
{
    cJSON *object = cJSON_CreateObject();

    if (object && !cJSON_AddItemToArray(list, object)) {
        cJSON_Delete(object);
        object = NULL;
    }
    return object;
}

static bool add_peers(cJSON *list, const struct br_snapshot *s)
{
    for (int i = 0; i < s->n_peers; i++) {
        cJSON *object = add_object(list);

        if (!object || !cJSON_AddNumberToObject(object, "peer", s->peers[i].peer) ||
            !add_fields(object, &s->peers[i], br_counters_peer))
            return false;
    }
    return true;
}

static bool snapshot_add_rails(cJSON *list, const struct br_snapshot *s)
{
    for (int i = 0; i < s->n_rails; i++) {
        const struct braid_rail_stats *rail = &s->rails[i];
        cJSON *object = add_object(list);

        if (!object || !cJSON_AddNumberToObject(object, "peer", rail->peer) ||
            !cJSON_AddNumberToObject(object, "rail", rail->rail) ||
            !cJSON_AddNumberToObject(object, "level", rail->level) ||
            !cJSON_AddStringToObject(object, "device", rail->device) ||
            !add_fields(object, rail, br_counters_rail))
            return false;
    }
    return true;
}

char *br_snapshot_json(const struct br_snapshot *s)
{
    cJSON *root = cJSON_CreateObject(), *stats, *peers, *rails;
    char *text = NULL;

    if (root && cJSON_AddStringToObject(root, "job", s->job) &&
        cJSON_AddStringToObject(root, "name", s->name) &&
        cJSON_AddNumberToObject(root, "rank", s->rank) &&
        cJSON_AddNumberToObject(root, "size", s->size) &&
        cJSON_AddNumberToObject(root, "pid", s->pid) &&
        cJSON_AddNumberToObject(root, "at_ns", (double)s->at) &&
        (stats = cJSON_AddObjectToObject(root, "stats")) &&
        add_fields(stats, &s->stats, br_counters_rank) &&
        (peers = cJSON_AddArrayToObject(root, "peers")) && add_peers(peers, s) &&
        (rails = cJSON_AddArrayToObject(root, "rails")) && snapshot_add_rails(rails, s))
        text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return text;
}

static double snapshot_number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 1e19
               ? item->valuedouble
               : 0;
}

static int snapshot_small(const cJSON *object, const char *name)
{
    double n = snapshot_number(object, name);

    return n > INT32_MAX ? INT32_MAX : (int)n;
}

static void snapshot_copy_text(const cJSON *object, const char *name, char *to, size_t bytes)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));

    snprintf(to, bytes, "%s", text ? text : "");
}

static void read_fields(const cJSON *object, void *to, const struct br_counter *counter)
{
    for (; counter->name; counter++)
        *(uint64_t *)((char *)to + counter->offset) =
            (uint64_t)snapshot_number(object, counter->name);
}

static int read_lists(const cJSON *peers, const cJSON *rails, struct br_snapshot *s)
{
    int n_peers = cJSON_GetArraySize(peers), n_rails = cJSON_GetArraySize(rails);
    const cJSON *item;

    s->peers = calloc((size_t)n_peers + 1, sizeof *s->peers);
    s->rails = calloc((size_t)n_rails + 1, sizeof *s->rails);
    if (!s->peers || !s->rails)
        return br_error(ENOMEM, "no memory");
    cJSON_ArrayForEach(item, peers)
    {
        struct braid_peer_stats *peer = &s->peers[s->n_peers++];

        peer->peer = snapshot_small(item, "peer");
        read_fields(item, peer, br_counters_peer);
    }
    cJSON_ArrayForEach(item, rails)
    {
        struct braid_rail_stats *rail = &s->rails[s->n_rails++];

        rail->peer = snapshot_small(item, "peer");
        rail->rail = snapshot_small(item, "rail");
        rail->level = snapshot_small(item, "level");
        snapshot_copy_text(item, "device", rail->device, sizeof rail->device);
        read_fields(item, rail, br_counters_rail);
    }
    return 0;
}

int br_snapshot_parse(const char *json, struct br_snapshot *s)
{
    cJSON *root = cJSON_Parse(json);
    const cJSON *stats = cJSON_GetObjectItemCaseSensitive(root, "stats"),
                *peers = cJSON_GetObjectItemCaseSensitive(root, "peers"),
                *rails = cJSON_GetObjectItemCaseSensitive(root, "rails");
    int rc = 0;

    *s = (struct br_snapshot){0};
    if (!cJSON_IsObject(stats) || !cJSON_IsArray(peers) || !cJSON_IsArray(rails)) {
        rc = br_error(EPROTO, "this is no snapshot of a rank");
    } else {
        snapshot_copy_text(root, "job", s->job, sizeof s->job);
        snapshot_copy_text(root, "name", s->name, sizeof s->name);
        s->rank = snapshot_small(root, "rank");
        s->size = snapshot_small(root, "size");
        s->pid = snapshot_small(root, "pid");
        s->at = (uint64_t)snapshot_number(root, "at_ns");
        read_fields(stats, &s->stats, br_counters_rank);
        rc = read_lists(peers, rails, s);
    }
    cJSON_Delete(root);
    if (rc)
        br_snapshot_free(s);
    return rc;
}

/* ---- Prometheus ------------------------------------------------------------------------------ */

/* A metric: its name has the base unit, and _total if it only grows. */
struct metric {
    char name[80];
    bool seconds; /* the field counts nanoseconds */
};

static struct metric metric_of(const char *prefix, const struct br_counter *counter)
{
    size_t length = strlen(counter->name);
    struct metric m = {.seconds = length > 3 && !strcmp(counter->name + length - 3, "_ns")};

    snprintf(m.name, sizeof m.name, "%s%.*s%s%s", prefix, (int)(m.seconds ? length - 3 : length),
             counter->name, m.seconds ? "_seconds" : "", counter->gauge ? "" : "_total");
    return m;
}

static void put_head(FILE *out, const struct metric *m, const struct br_counter *counter)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", m->name, counter->help, m->name,
            counter->gauge ? "gauge" : "counter");
}

/* A label's value: the three characters that the format wants escaped. */
static void put_escaped(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            fputs("\\n", out);
        else
            fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

static void put_rank(FILE *out, const struct metric *m, const struct br_snapshot *s)
{
    fprintf(out, "%s{job=\"", m->name);
    put_escaped(out, s->job);
    fprintf(out, "\",rank=\"%d\"", s->rank);
}

static void put_value(FILE *out, const struct metric *m, uint64_t v)
{
    if (m->seconds)
        fprintf(out, "} %" PRIu64 ".%09" PRIu64 "\n", v / 1000000000, v % 1000000000);
    else
        fprintf(out, "} %" PRIu64 "\n", v);
}

/* Names are the labels of a metric of their own, as Prometheus' _info metrics: those of the others
 * stay the same whatever a program calls its job. */
static void put_names(const struct br_snapshot *snapshots, int n, FILE *out)
{
    static const struct metric m = {.name = "braid_job_info"};

    fprintf(out, "# HELP %s what the program calls the job\n# TYPE %s gauge\n", m.name, m.name);
    for (int i = 0; i < n; i++) {
        put_rank(out, &m, &snapshots[i]);
        fputs(",name=\"", out);
        put_escaped(out, snapshots[i].name);
        fputc('"', out);
        put_value(out, &m, 1);
    }
}

static void put_ranks(const struct br_snapshot *snapshots, int n, FILE *out)
{
    for (const struct br_counter *counter = br_counters_rank; counter->name; counter++) {
        struct metric m = metric_of("braid_", counter);

        put_head(out, &m, counter);
        for (int i = 0; i < n; i++) {
            put_rank(out, &m, &snapshots[i]);
            put_value(out, &m, snapshot_value(&snapshots[i].stats, counter));
        }
    }
}

static void put_peers(const struct br_snapshot *snapshots, int n, FILE *out)
{
    for (const struct br_counter *counter = br_counters_peer; counter->name; counter++) {
        struct metric m = metric_of("braid_peer_", counter);

        put_head(out, &m, counter);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < snapshots[i].n_peers; k++) {
                put_rank(out, &m, &snapshots[i]);
                fprintf(out, ",peer=\"%d\"", snapshots[i].peers[k].peer);
                put_value(out, &m, snapshot_value(&snapshots[i].peers[k], counter));
            }
    }
}

static void put_rails(const struct br_snapshot *snapshots, int n, FILE *out)
{
    for (const struct br_counter *counter = br_counters_rail; counter->name; counter++) {
        struct metric m = metric_of("braid_rail_", counter);

        put_head(out, &m, counter);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < snapshots[i].n_rails; k++) {
                const struct braid_rail_stats *rail = &snapshots[i].rails[k];

                put_rank(out, &m, &snapshots[i]);
                fprintf(out, ",peer=\"%d\",rail=\"%d\",level=\"%d\",device=\"", rail->peer,
                        rail->rail, rail->level);
                put_escaped(out, rail->device);
                fputc('"', out);
                put_value(out, &m, snapshot_value(rail, counter));
            }
    }
}

void br_snapshot_prometheus(const struct br_snapshot *snapshots, int n, FILE *out)
{
    put_names(snapshots, n, out);
    put_ranks(snapshots, n, out);
    put_peers(snapshots, n, out);
    put_rails(snapshots, n, out);
}
