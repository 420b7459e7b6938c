/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective, and messages around the ring, between real processes over every back end,
 * against a reference in higher precision (tests/collectives/case.h), twice for the same bits. With
 * memory of the fake GPU the counters must say besides that each byte was copied once in each
 * direction; each device of the guest must have carried something.
 *
 * The table has these axes: back end, number of ranks, algorithm of a collective, type, reduction,
 * size, in place, root, memory of what is sent, memory of what is received, alignment, way to call.
 * Their product is not run: of any two axes each value meets each value of the other one in some
 * case (pairwise.h). The cases are always the same.
 *
 * With BRAID_CUDA_LIBRARY=libcuda.so.1 the GPU of gpu-shm, gpu-tcp, gpu-auto and gpu-udp is a real
 * one. An argument or BRAID_BACKEND runs one back end of the table only, with a table of its own;
 * "verbs", which needs devices of the guest (doc/guest.md), runs by its name alone, with a rank for
 * each of the guest's hosts. BRAID_MATRIX_SEED chooses other cases, BRAID_MATRIX_CASES at most so
 * many of each job, BRAID_MATRIX_RANKS leaves out jobs of other sizes. A failing case says which it
 * is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "collectives/schedule/type.h"
#include "tests/collectives/pairwise.h"
#include "tests/system/collective.h"
#include "tests/system/memif.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

#define MOST  (8u << 20)   /* bytes of a buffer */
#define FEW   (256u << 10) /* in a guest, whose processors are emulated */
#define SLACK 16u          /* before the guard, for alignment */

/* ---- axes ------------------------------------------------------------------------------------ */

enum axis {
    BACKEND,
    RANKS,
    ALGORITHM,
    TYPE,
    REDUCTION,
    SIZE,
    IN_PLACE,
    ROOT,
    SEND_MEMORY,
    RECV_MEMORY,
    ALIGNMENT,
    WAY, /* WAYS: each rank its own */
    AXES
};

struct backend {
    const char *name;
    struct ranks job;
    uint16_t sizes; /* bit n: jobs of n ranks */
    bool gpu, dpdk, guest;
};

#define LO  "127.0.0.1"
#define TWO "127.0.0.1,127.0.0.2"
#define ALL 0x3fe /* 1 to 9 ranks */

/* Staging is the same over all back ends: with the host's shared segment and without, more ranks
 * than cores, and small slices (5 ranks). */
static struct backend backends[] = {
    {"tcp", {.backend = "tcp", .devices = LO}, ALL, false, false, false},
    {"tcp-two", {.backend = "tcp", .devices = TWO}, ALL, false, false, false},
    {"shm", {.backend = "shm"}, ALL, false, false, false},
    {"auto", {.backend = "auto", .devices = LO}, ALL, false, false, false},
    {"udp", {.backend = "udp", .devices = TWO}, 1 << 2 | 1 << 5 | 1 << 8, false, false, false},
    {"gpu-shm", {.backend = "shm"}, 1 << 1 | 1 << 3, true, false, false},
    {"gpu-tcp", {.backend = "tcp", .devices = LO}, 1 << 2, true, false, false},
    {"gpu-auto", {.backend = "auto", .devices = LO}, 1 << 4, true, false, false},
    {"gpu-udp", {.backend = "udp", .devices = TWO}, 1 << 5, true, false, false},
    {"dpdk", {.backend = "dpdk"}, 1 << 2, false, true, false},
    {"verbs", {.backend = "verbs", .peer_timeout_ms = 60000}, 0, false, false, true},
};
#define BACKENDS (int)(sizeof backends / sizeof *backends)

static const struct {
    enum br_collective collective;
    const char *algorithms[9]; /* besides the one that is chosen */
    bool uneven;               /* the form with blocks of different sizes */
} collectives[] = {
    {BR_ALLREDUCE,
     {"ring", "direct", "halving", "flat", "binary_tree", "double_tree", "doubling"},
     false},
    {BR_REDUCE_SCATTER, {"ring", "direct", "halving"}, false},
    {BR_ALLGATHER, {"ring", "direct", "halving"}, false},
    {BR_BROADCAST,
     {"ring", "direct", "halving", "flat", "tree", "chain", "binary_tree", "double_tree"},
     false},
    {BR_REDUCE, {"ring", "direct", "flat", "tree", "chain", "binary_tree", "double_tree"}, false},
    {BR_ALLTOALL, {"direct", "bruck", "tree"}, false},
    {BR_GATHER, {"flat", "tree"}, false},
    {BR_SCATTER, {"flat", "tree"}, false},
    {BR_BARRIER, {"dissemination", "flat", "tree"}, false},
    {CASE_SENDRECV, {NULL}, false},
    {BR_SCAN, {"chain", "doubling"}, false},
    {BR_EXSCAN, {"chain", "doubling"}, false},
    {BR_ALLTOALL, {NULL}, true},
    {BR_ALLGATHER, {"ring", "halving"}, true},
    {BR_REDUCE_SCATTER, {"ring"}, true},
    {BR_GATHER, {NULL}, true},
    {BR_SCATTER, {NULL}, true},
};
#define COLLECTIVES (int)(sizeof collectives / sizeof *collectives)

/* The value `number` of the axis; beyond the last one: false. */
static bool algorithm(int number, enum br_collective *collective, const char **name, bool *uneven)
{
    for (int c = 0; c < COLLECTIVES; c++)
        for (int a = -1; a < 0 || collectives[c].algorithms[a]; a++)
            if (!number--) {
                *collective = collectives[c].collective;
                *uneven = collectives[c].uneven;
                *name = a < 0 ? NULL : collectives[c].algorithms[a];
                return true;
            }
    return false;
}

/* Around the limits of the shared segment (4 KiB), eager messages, slices, chunks and fragments.
 * Elements; negative: bytes. */
static const long sizes[] = {0,     1,     2,     7,      31,     255,    1023,  -4096,
                             -4104, -8200, 16385, -65536, -65544, 131073, 300007};
#define SIZES (int)(sizeof sizes / sizeof *sizes)

enum memory { PLAIN, ALLOCATED, OF_GPU, MEMORIES };

static const char *const memories[] = {"malloc", "braid_alloc", "a GPU"};

static bool allowed(const int *row, void *context)
{
    const int *only = context;
    enum br_collective collective;
    const char *name;
    bool uneven;

    if (*only < 0 ? backends[row[BACKEND]].guest : row[BACKEND] != *only)
        return false;
    if (!(backends[row[BACKEND]].sizes & 1 << (row[RANKS] + 1)))
        return false;
    if (!backends[row[BACKEND]].gpu && (row[SEND_MEMORY] == OF_GPU || row[RECV_MEMORY] == OF_GPU))
        return false;
    algorithm(row[ALGORITHM], &collective, &name, &uneven);
    if ((collective == BR_SCAN || collective == BR_EXSCAN) && row[REDUCTION] == BRAID_AVG)
        return false;
    if (collective != CASE_SENDRECV && br_collective_reduces(collective) &&
        !br_type_has_reduction((enum braid_type)row[TYPE], (enum braid_reduction)row[REDUCTION]))
        return false;
    return collective != CASE_SENDRECV || (!row[IN_PLACE] && row[RANKS]);
}

/* ---- one case -------------------------------------------------------------------------------- */

/* What the ranks of a job have to do. */
struct work {
    const struct backend *backend;
    uint64_t seed;
    int (*rows)[PAIRWISE_AXES];
    int n;
    long most;
};

struct rank {
    struct braid_comm *comm;
    int rank, size, row; /* row: of the table */
    uint64_t seed;
    uint8_t *send[MEMORIES], *recv[MEMORIES]; /* of a GPU: NULL where there is none */
    uint8_t *first;                           /* result of the first repetition */
};

struct combination {
    struct collective_call call;
    /* of this rank; in place: that of the larger one counts for both */
    enum memory send_memory, recv_memory;
    uint8_t *send, *recv;
};

static int wrong(const struct rank *r, const struct combination *c, const char *what)
{
    fprintf(stderr, "BRAID_MATRIX_SEED=%llu row %d, rank %d of %d, from %s to %s: %s of %s\n",
            (unsigned long long)r->seed, r->row, r->rank, r->size, memories[c->send_memory],
            memories[c->recv_memory], what, case_name(&c->call.of));
    return 1;
}

static struct combination combine(const struct rank *r, const int *row)
{
    struct combination c = {0};
    struct collective_case *of = &c.call.of;
    struct br_random random, own;
    size_t size, most;

    br_random_seed(&random, r->seed * 1000003 + (uint64_t)r->row);
    of->data.seed = br_random_next(&random);
    of->data.type = (enum braid_type)row[TYPE];
    of->data.reduction = (enum braid_reduction)row[REDUCTION];
    algorithm(row[ALGORITHM], &of->collective, &c.call.options.algorithm, &of->uneven);
    size = br_type_size(of->data.type);
    most = (backends[row[BACKEND]].guest ? FEW : MOST) / size / case_blocks(of, r->size);
    of->count = sizes[row[SIZE]] < 0 ? (size_t)-sizes[row[SIZE]] / size : (size_t)sizes[row[SIZE]];
    of->count = of->count < most ? of->count : most;
    of->root = row[ROOT] * (r->size - 1) / 2;
    of->in_place = row[IN_PLACE];
    c.call.options.priority = (int32_t)br_random_below(&random, 5) - 2;
    br_random_seed(&own, of->data.seed + (uint64_t)r->rank * 77);
    c.call.form =
        (enum collective_way)(row[WAY] < WAYS ? (uint64_t)row[WAY] : br_random_below(&own, WAYS));
    c.send_memory = (enum memory)row[SEND_MEMORY];
    c.recv_memory = (enum memory)row[RECV_MEMORY];
    if (c.send_memory == OF_GPU && !br_random_below(&own, 4)) /* ranks differ */
        c.send_memory = PLAIN;
    if (c.recv_memory == OF_GPU && !br_random_below(&own, 4))
        c.recv_memory = PLAIN;
    c.send = r->send[c.send_memory] + CASE_GUARD +
             (row[ALIGNMENT] ? br_random_below(&random, SLACK) : 0);
    c.recv = r->recv[c.recv_memory] + CASE_GUARD +
             (row[ALIGNMENT] ? br_random_below(&random, SLACK) : 0);
    return c;
}

/* Each byte on a GPU that is read was copied from there once, and each one that is written was
 * copied there once. */
static int check_copies(const struct rank *r, const struct combination *c,
                        const struct braid_stats *before, const struct case_buffers *b)
{
    const struct collective_case *of = &c->call.of;
    size_t size = of->collective == BR_BARRIER ? 0 : br_type_size(of->data.type),
           reads = case_elements(of, r->size, BR_INPUT, r->rank) * size,
           writes = case_elements(of, r->size, BR_OUTPUT, r->rank) * size,
           to_host = b->reads && own_gpu_view(b->send) != b->send ? reads : 0,
           to_gpu = b->writes && own_gpu_view(b->recv) != b->recv ? writes : 0;
    struct braid_stats after = {0};

    if (braid_stats(r->comm, &after))
        return wrong(r, c, "stats");
    after.gpu_to_host_bytes -= before->gpu_to_host_bytes;
    after.host_to_gpu_bytes -= before->host_to_gpu_bytes;
    /* Off the shared segment the own block is fetched both as input and as output. */
    if (of->in_place && to_host >= writes + !of->uneven &&
        after.gpu_to_host_bytes == to_host + writes)
        to_host += writes;
    /* An all-reduce may stay on the GPUs of the host; what a GPU combines is copied there besides.
     */
    if (after.gpu_reduced_bytes > before->gpu_reduced_bytes)
        return 0;
    if (after.gpu_to_host_bytes != to_host)
        return wrong(r, c, "bytes were copied from the GPU, another number than are read");
    if (after.host_to_gpu_bytes != to_gpu)
        return wrong(r, c, "bytes were copied to the GPU, another number than are written");
    return 0;
}

static int once(const struct rank *r, const struct combination *c, bool again)
{
    struct case_buffers b = collective_buffers(r->comm, &c->call, c->send, c->recv),
                        seen = collective_seen(&b);
    size_t n = b.writes ? b.recv_bytes : 0;
    struct braid_stats before = {0};

    if (braid_stats(r->comm, &before))
        return wrong(r, c, "stats");
    if (collective_check(r->comm, &c->call, c->send, c->recv, again ? r->first : NULL))
        return wrong(r, c, again ? "that was the second run" : "that was the first run");
    if (check_copies(r, c, &before, &b))
        return 1;
    memcpy(r->first, seen.recv, n);
    return 0;
}

/* ---- a job ----------------------------------------------------------------------------------- */

/* Over the devices of the guest: all of them were used. */
static int every_device_carried(struct braid_comm *comm, const char *devices)
{
    struct braid_rail_stats rails[64] = {0};
    uint64_t sent[8] = {0};
    int n = braid_rail_stats(comm, rails, 64), levels = 1;

    CHECK(n > 0 && n <= 64, "%d rails", n);
    for (; (devices = strchr(devices, ',')); devices++)
        levels++;
    for (int i = 0; i < n; i++)
        if (rails[i].level < 8)
            sent[rails[i].level] += rails[i].tx_bytes;
    for (int i = 0; i < levels && i < 8; i++)
        CHECK(sent[i] > 0, "nothing was sent by device %d", i);
    return 0;
}

static int all_cases(struct braid_comm *comm, void *context)
{
    const struct work *work = context;
    size_t bytes = MOST + SLACK + 2 * CASE_GUARD;
    struct rank r = {
        .comm = comm,
        .rank = braid_rank(comm),
        .size = braid_size(comm),
        .seed = work->seed,
        .send = {malloc(bytes), braid_alloc(comm, bytes)},
        .recv = {malloc(bytes), braid_alloc(comm, bytes)},
        .first = malloc(bytes),
    };
    long done = 0;
    int rc;

    CHECK(r.send[PLAIN] && r.send[ALLOCATED] && r.recv[PLAIN] && r.recv[ALLOCATED] && r.first,
          "memory");
    if (work->backend->gpu) {
        r.send[OF_GPU] = own_gpu_alloc(bytes);
        r.recv[OF_GPU] = own_gpu_alloc(bytes);
    }
    for (rc = 0; r.row < work->n && done < work->most && !rc; r.row++) {
        const int *row = work->rows[r.row];
        struct combination c;

        if (&backends[row[BACKEND]] != work->backend || row[RANKS] + 1 != r.size)
            continue;
        c = combine(&r, row);
        rc = once(&r, &c, false) || once(&r, &c, true);
        done++;
    }
    if (!rc && work->backend->guest)
        rc = every_device_carried(comm, work->backend->job.devices);
    if (!rc && !done)
        rc = wrong(&r, &(struct combination){0}, "no case");
    if (work->backend->gpu) {
        own_gpu_free(r.send[OF_GPU]);
        own_gpu_free(r.recv[OF_GPU]);
    }
    free(r.first);
    free(r.recv[PLAIN]);
    free(r.send[PLAIN]);
    return rc;
}

static long setting(const char *name, long fallback)
{
    const char *text = getenv(name);

    return text ? atol(text) : fallback;
}

static int only = -1; /* this back end, alone */
static struct work table;

/* A rank for each host of the guest's setup, with its devices. */
static void look_for_hosts(struct backend *backend)
{
    static char devices[128], setup[64];
    FILE *file = fopen("/run/hosts", "re");
    char line[256];
    int n = 0;

    while (file && fgets(line, sizeof line, file))
        if (!n++)
            for (char *c = line, *end = devices; (c = strstr(c, "h0")) && end - devices < 120;
                 c += 2)
                end += snprintf(end, 16, "%sh#%.2s", end == devices ? "" : ",", c + 2);
    if (!file || !n || n > 9)
        fail_msg("%s wants the hosts of a guest (tests/guest/run)", backend->name);
    fclose(file);
    file = fopen("/run/setup", "re");
    if (file && fgets(setup, sizeof setup, file) && !strncmp(setup, "bcube:", 6)) {
        setup[strcspn(setup, "@\n")] = 0;
        backend->job.topology = setup;
        backend->job.per_host = 1;
    }
    if (file)
        fclose(file);
    backend->job.devices = devices;
    backend->sizes = (uint16_t)(1u << n);
}

static int make_table(void **state)
{
    struct pairwise of = {.axes = AXES, .allowed = allowed, .context = &only};
    enum br_collective collective;
    const char *name;
    bool uneven;

    (void)state;
    table.seed = of.seed = (uint64_t)setting("BRAID_MATRIX_SEED", 1);
    table.most = setting("BRAID_MATRIX_CASES", 1000);
    if (only >= 0 && backends[only].guest)
        look_for_hosts(&backends[only]);
    memcpy(of.values,
           (const int[AXES]){BACKENDS, 9, 0, BRAID_TYPES, BRAID_REDUCTIONS, SIZES, 2, 3, MEMORIES,
                             MEMORIES, 2, WAYS + 1},
           sizeof(int[AXES]));
    while (algorithm(of.values[ALGORITHM], &collective, &name, &uneven))
        of.values[ALGORITHM]++;
    table.n = pairwise_rows(&of, &table.rows);
    return 0;
}

static int free_table(void **state)
{
    (void)state;
    free(table.rows);
    return 0;
}

/* Small slices and eager limits put more boundaries into the same sizes. */
static void matrix(void **state)
{
    const struct backend *backend = *state;
    struct ranks job = backend->job;
    long ranks = setting("BRAID_MATRIX_RANKS", 0);
    bool real = own_gpu_is_real();

    table.backend = backend;
    job.timeout_ms = RANKS_PATIENCE;
    if (backend->dpdk && !memif_ports())
        skip();
    if (backend->gpu && !real)
        setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    for (job.size = 1; job.size <= 9; job.size++) {
        job.slice_bytes = job.size % 3 == 2 ? 20000 : 0;
        job.eager_bytes = job.size % 3 == 2 ? 1000 : 0;
        if (backend->sizes & 1 << job.size && (!ranks || ranks == job.size))
            ranks_run(&job, all_cases, &table);
    }
    if (!real)
        unsetenv("BRAID_CUDA_LIBRARY");
    if (backend->dpdk)
        memif_remove();
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : getenv("BRAID_BACKEND");
    struct CMUnitTest tests[BACKENDS];
    const struct br_cuda *driver;
    size_t n = 0;

    for (int i = 0; i < BACKENDS; i++) {
        if (name ? strcmp(name, backends[i].name) != 0 : backends[i].guest)
            continue;
        tests[n++] = (struct CMUnitTest){backends[i].name, matrix, NULL, NULL, &backends[i]};
        only = name ? i : -1;
    }
    if (!n) {
        fprintf(stderr, "no back end '%s'\n", name);
        return 2;
    }
    unsetenv("BRAID_BACKEND");
    if (own_gpu_is_real() && br_cuda_library(&driver)) {
        fprintf(stderr, "%s\n", br_error_message());
        return 77;
    }
    return _cmocka_run_group_tests("matrix", tests, n, make_table, free_table);
}
