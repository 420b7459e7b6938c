/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/mesh.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <braid/braid.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/tuning/calibration.h"
#include "tools/calibrate/link.h"
#include "tools/common/job.h"
#include "tools/common/options.h"
#include "tools/common/output.h"
#include "tools/common/config_check.h"

#define TRIP_BYTES 8
/* Bytes that do not count: what a shaped link lets through after a pause. */
#define LEAD       (256u << 10)
#define ENOUGH     (768u << 10) /* bytes that count, at least */
#define EACH       (10 * BR_MS) /* a pair alone */
#define TOGETHER   0.3          /* s of all at once, as the pairs alone predict it */
#define WINDOW     4            /* messages under way, of each pair and direction, all at once */
#define MOST_RANKS 128          /* a pair each is 16,256 measurements */

struct settings {
    int64_t bytes, level;
    const char *json, *svg;
};

struct work {
    struct br_link_bench bench;
    struct br_mesh mesh;
    const struct br_topology *topology;
    int rank;
};

/* One pair of ranks while all are busy: what this rank sends there, and gets from there. */
struct flow {
    int peer;
    uint32_t received, posted, sent, offered;
    struct braid_op *recvs[WINDOW], *sends[WINDOW];
    uint64_t start, end; /* ns: the lead-in was here; all was */
};

static double *mesh_cell(const struct work *w, double *values, int from, int to)
{
    return &values[(size_t)from * w->mesh.n + (size_t)to];
}

static bool is_pair(const struct work *w, int from, int to)
{
    struct br_hop hops[BR_TOPOLOGY_HOPS];

    if (from == to)
        return false;
    return w->mesh.level < 0 ||
           (br_topology_route(w->topology, (uint32_t)from, (uint32_t)to, BR_LEVEL_ANY, hops) == 1 &&
            hops[0].level == w->mesh.level);
}

/* All ranks get what each has filled in. */
static int mesh_gather(struct work *w, double *values)
{
    return braid_allreduce(w->bench.comm, values, values, (size_t)w->mesh.n * w->mesh.n,
                           BRAID_FLOAT64, BRAID_SUM, NULL, NULL);
}

/* ---- alone ----------------------------------------------------------------------------------- */

static uint32_t messages_of(uint64_t bytes, const struct work *w, uint32_t least)
{
    uint64_t n = bytes / (uint64_t)w->mesh.bytes;

    return n < least ? least : n > 512 ? 512 : (uint32_t)n;
}

static int measure_pair(struct work *w, int to)
{
    uint32_t lead = messages_of(LEAD, w, 2), count = messages_of(ENOUGH, w, 4);
    double seconds = 0;
    int rc =
        br_link_trip(&w->bench, to, TRIP_BYTES, EACH, mesh_cell(w, w->mesh.latency, w->rank, to));

    if (!rc)
        rc = br_link_stream(&w->bench, to, (size_t)w->mesh.bytes, lead, count, &seconds);
    if (!rc && seconds * count < (double)EACH / 2e9) {
        count = (uint32_t)fmin((double)EACH / 1e9 / fmax(seconds, 1e-7), 512);
        rc = br_link_stream(&w->bench, to, (size_t)w->mesh.bytes, lead, count > 4 ? count : 4,
                            &seconds);
    }
    *mesh_cell(w, w->mesh.alone, w->rank, to) = seconds / (double)w->mesh.bytes;
    return rc ? rc : br_link_release(&w->bench, to);
}

static int measure_alone(struct work *w)
{
    int n = (int)w->mesh.n, rc = 0;

    for (int from = 0; from < n; from++)
        for (int to = 0; to < n && !rc; to++) {
            if (!is_pair(w, from, to))
                continue;
            rc = braid_barrier(w->bench.comm, NULL, NULL);
            if (!rc && w->rank == from)
                rc = measure_pair(w, to);
            else if (!rc && w->rank == to)
                rc = br_link_follow(&w->bench, from);
        }
    if (!rc)
        rc = mesh_gather(w, w->mesh.alone);
    return rc ? rc : mesh_gather(w, w->mesh.latency);
}

/* ---- at once --------------------------------------------------------------------------------- */

/* Takes what has ended in order; posts what there is room for. Returns how much was done, or an
 * error. */
static int mesh_measure_pair(struct work *w, struct flow *f, uint32_t lead, uint32_t all)
{
    size_t bytes = (size_t)w->mesh.bytes;
    int done, n = 0, rc = 0;

    while (!rc && f->received < f->posted) {
        rc = braid_test(f->recvs[f->received % WINDOW], &done);
        if (rc || !done)
            break;
        n++;
        if (++f->received == lead)
            f->start = br_clock_now();
        f->end = br_clock_now();
    }
    while (!rc && f->sent < f->offered) {
        rc = braid_test(f->sends[f->sent % WINDOW], &done);
        if (rc || !done)
            break;
        f->sent++;
        n++;
    }
    for (; !rc && f->posted < all && f->posted - f->received < WINDOW; f->posted++, n++)
        rc = braid_recv(w->bench.comm, w->bench.in, bytes, f->peer, NULL,
                        &f->recvs[f->posted % WINDOW]);
    for (; !rc && f->offered < all && f->offered - f->sent < WINDOW; f->offered++, n++)
        rc = braid_send(w->bench.comm, w->bench.out, bytes, f->peer, NULL,
                        &f->sends[f->offered % WINDOW]);
    return rc ? rc : n;
}

static int stream_all(struct work *w, struct flow *flows, int n, uint32_t lead, uint32_t count)
{
    bool busy = true;
    int rc = braid_barrier(w->bench.comm, NULL, NULL);

    while (busy && rc >= 0) {
        int done = 0;

        busy = false;
        for (int i = 0; i < n && rc >= 0; i++) {
            rc = mesh_measure_pair(w, &flows[i], lead, lead + count);
            done += rc > 0;
            busy = busy || flows[i].received < lead + count || flows[i].sent < lead + count;
        }
        if (!done)
            sched_yield();
    }
    for (int i = 0; i < n && rc >= 0; i++)
        *mesh_cell(w, w->mesh.at_once, flows[i].peer, w->rank) =
            (double)(flows[i].end - flows[i].start) / 1e9 / count / (double)w->mesh.bytes;
    return rc < 0 ? rc : mesh_gather(w, w->mesh.at_once);
}

/* The same on all ranks. */
static uint32_t count_at_once(const struct work *w)
{
    double most = 0; /* s that the messages of a rank take, one of each pair */

    for (int from = 0; from < (int)w->mesh.n; from++) {
        double sum = 0;

        for (int to = 0; to < (int)w->mesh.n; to++)
            sum += *mesh_cell(w, w->mesh.alone, from, to) * (double)w->mesh.bytes;
        most = fmax(most, sum);
    }
    return most > 0 ? (uint32_t)fmin(fmax(TOGETHER / most, 8), 4096) : 8;
}

static int measure_at_once(struct work *w)
{
    struct flow *flows = calloc(w->mesh.n, sizeof *flows);
    int n = 0, rc;

    if (!flows)
        return br_error(ENOMEM, "no memory for the pairs of %u ranks", w->mesh.n);
    for (int i = 1; i < (int)w->mesh.n; i++) {
        int peer = (w->rank + i) % (int)w->mesh.n;

        if (is_pair(w, w->rank, peer))
            flows[n++].peer = peer;
    }
    rc = stream_all(w, flows, n, messages_of(LEAD, w, 2), count_at_once(w));
    free(flows);
    return rc;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int mesh_parse(struct settings *s, int argc, char **argv)
{
    const struct br_option options[] = {
        {"size", 's', BR_OPTION_BYTES, &s->bytes, 1, BR_LINK_MAX_BYTES,
         "SIZE of a message; default 256K"},
        {"level", 0, BR_OPTION_NUMBER, &s->level, 0, 31,
         "L only the pairs of this level of the job's BCube"},
        {"json", 0, BR_OPTION_TEXT, &s->json, 0, 0,
         "FILE the matrices; - is standard output, without the text (braid run: --no-prefix)"},
        {"svg", 0, BR_OPTION_TEXT, &s->svg, 0, 0,
         "FILE the heat maps as a drawing; - is standard output, without the text"},
        {0},
    };
    int rc = br_options_parse(options, "braid run -n N -- braid perf mesh [options]", argc, argv);

    if (!rc && s->json && s->svg && !strcmp(s->json, s->svg))
        rc = br_error(EINVAL, "--json and --svg are both to %s; give one of them another name",
                      s->json);
    return rc;
}

static int mesh_check(const struct work *w)
{
    if (w->mesh.n < 2)
        return br_error(EINVAL, "one rank has no pairs; start more with `braid run -n N -- ...`");
    if (w->mesh.n > MOST_RANKS)
        return br_error(E2BIG, "%u ranks have too many pairs; %d ranks at most", w->mesh.n,
                        MOST_RANKS);
    if (w->mesh.level >= 0 && w->topology->kind != BR_TOPOLOGY_BCUBE)
        return br_error(
            EINVAL, "--level: the job is no BCube; leave it out, or set BRAID_TOPOLOGY=bcube:N,K");
    if (w->mesh.level >= 0 && w->mesh.level >= (int64_t)w->topology->cube.k)
        return br_error(EINVAL, "--level %" PRId64 ": the BCube has levels 0 to %u", w->mesh.level,
                        w->topology->cube.k - 1);
    return 0;
}

static int print_svg(const struct br_mesh *mesh, FILE *out)
{
    br_mesh_svg(mesh, out);
    return 0;
}

static int mesh_write_file(const struct br_mesh *mesh, const char *path,
                           int (*print)(const struct br_mesh *mesh, FILE *out))
{
    FILE *out;
    int rc = 0;

    if (!path || !(out = br_output_open(path, true, &rc)))
        return rc;
    return br_output_close(out, path, print(mesh, out));
}

static bool is_stdout(const char *path)
{
    return path && !strcmp(path, "-");
}

/* What could be measured again only in minutes is written as far as it can be. */
static int mesh_write_files(const struct br_mesh *mesh, const struct settings *s)
{
    char text[BR_ERROR_BYTES] = "";
    int rc = mesh_write_file(mesh, s->json, br_mesh_json), other;

    if (rc)
        snprintf(text, sizeof text, "%s", br_error_message());
    other = mesh_write_file(mesh, s->svg, print_svg);
    if (rc)
        br_error(-rc, "%.250s%s%.250s", text, other ? "; " : "", other ? br_error_message() : "");
    return rc ? rc : other;
}

static int mesh_report(struct work *w, const struct settings *s)
{
    char devices[BR_CALIBRATION_TEXT], topology[BR_TOPOLOGY_TEXT];

    br_comm_name_devices(w->bench.comm->context, devices);
    snprintf(w->mesh.title, sizeof w->mesh.title, "%s over %.100s",
             br_topology_text(w->topology, topology), devices);
    if (!is_stdout(s->json) && !is_stdout(s->svg))
        br_mesh_text(&w->mesh, stdout);
    return mesh_write_files(&w->mesh, s);
}

static int may_write(const char *option, const char *path)
{
    int rc = path ? br_output_may_write(path) : 0;

    return rc ? br_error_prefix(rc, "--%s: ", option) : 0;
}

/* What can be known to be wrong before anything is measured. */
static int mesh_prepare(const struct work *w, const struct settings *s)
{
    const struct br_config_option options[] = {{"size", s->bytes}, {"level", s->level}, {0}};
    int rc = mesh_check(w);

    if (!rc && w->rank == 0 && !(rc = may_write("json", s->json)))
        rc = may_write("svg", s->svg);
    return rc ? rc : br_config_options_agree(w->bench.comm, options);
}

static int mesh_run(struct braid_comm *comm, const struct settings *s)
{
    struct work w = {
        .bench.comm = comm,
        .mesh = {.n = (uint32_t)braid_size(comm), .level = s->level, .bytes = s->bytes},
        .topology = &comm->context->network.topology,
        .rank = braid_rank(comm)};
    size_t cells = (size_t)w.mesh.n * w.mesh.n;
    double *values = calloc(3 * cells, sizeof *values);
    int rc = values ? mesh_prepare(&w, s) : br_error(ENOMEM, "no memory for the matrices");

    if (values) {
        w.mesh.alone = values;
        w.mesh.at_once = values + cells;
        w.mesh.latency = values + 2 * cells;
    }
    if (!rc)
        rc = br_link_open(&w.bench, comm);
    if (!rc && !(rc = measure_alone(&w)))
        rc = measure_at_once(&w);
    if (!rc && w.rank == 0)
        rc = mesh_report(&w, s);
    br_link_close(&w.bench);
    free(values);
    return rc;
}

int br_perf_mesh(int argc, char **argv)
{
    struct settings s = {.bytes = 256 << 10, .level = -1};
    struct braid_comm *comm = NULL;
    int rc = mesh_parse(&s, argc, argv);

    if (rc == 1)
        return 0;
    if (!rc && !br_job_launched())
        rc = br_error(EINVAL,
                      "it measures a job: braid run -n 4 -- braid perf mesh, or any launcher");
    if (rc) {
        fprintf(stderr, "braid perf mesh: %s\n", br_error_message());
        return 2;
    }
    rc = braid_init(NULL, &comm);
    if (!rc)
        rc = mesh_run(comm, &s);
    if (rc) {
        fprintf(stderr, "braid perf mesh: %s\n", br_error_message());
        if (comm)
            braid_comm_abort(comm, "a rank of braid perf mesh failed");
    }
    if (comm && braid_finalize(comm) && !rc)
        rc = -EIO;
    return rc == -EINVAL ? 2 : rc != 0; /* what was asked for cannot be */
}
