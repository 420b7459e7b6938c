/* SPDX-License-Identifier: BSD-3-Clause */
/* The timeline of a job of two ranks: JSON; every operation is there; steps lie in their
 * operations, frames carry the bytes of the steps, and nothing overlaps in a row. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "tests/system/ranks.h"

#define TIMES 5
#define COUNT 300000 /* float32: several fragments */
#define EAGER 16384
#define MOST  100000

struct event {
    const char *category, *name;
    double begin, end;
    int row;
    long order, bytes;
};

struct timeline {
    struct event *events; /* [MOST] */
    int n;
    cJSON *root;
};

static char folder[] = "/tmp/braid-timeline-XXXXXX";

static int works(struct braid_comm *comm, void *context)
{
    float *in = calloc(COUNT, sizeof *in), *out = calloc(COUNT, sizeof *out);
    struct braid_op *ops[TIMES];
    struct braid_options options = {.title = "fc1 to \"fc2\""};

    (void)context;
    CHECK(in && out, "no memory");
    for (int i = 0; i < TIMES; i++)
        RETURNS(0, braid_allreduce(comm, in, out, COUNT, BRAID_FLOAT32, BRAID_SUM, NULL, NULL));
    RETURNS(0, braid_allreduce(comm, in, out, COUNT, BRAID_FLOAT32, BRAID_SUM, &options, NULL));
    for (int i = 0; i < TIMES; i++) /* at once */
        RETURNS(0, braid_allreduce(comm, in + 1000 * i, out + 1000 * i, 1000, BRAID_FLOAT32,
                                   BRAID_SUM, NULL, &ops[i]));
    for (int i = 0; i < TIMES; i++)
        RETURNS(0, braid_wait(ops[i], -1));
    free(in);
    free(out);
    return 0;
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static const char *words(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));

    assert_non_null(text);
    return text;
}

static void load(int rank, struct timeline *t)
{
    char path[64], *text = calloc(1, 16 << 20);
    const cJSON *item;
    FILE *file;

    snprintf(path, sizeof path, "%s/job.%d.json", folder, rank);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(text);
    assert_in_range(fread(text, 1, (16 << 20) - 1, file), 100, (16 << 20) - 2);
    fclose(file);
    t->root = cJSON_Parse(text);
    free(text);
    assert_true(cJSON_IsArray(t->root));
    t->events = calloc(MOST, sizeof *t->events);
    assert_non_null(t->events);
    t->n = 0;
    cJSON_ArrayForEach(item, t->root)
    {
        const cJSON *args = cJSON_GetObjectItemCaseSensitive(item, "args");

        assert_int_equal((int)number(item, "pid"), rank);
        assert_string_not_equal(words(item, "name"), "events lost");
        if (strcmp(words(item, "ph"), "X") != 0)
            continue;
        assert_true(t->n < MOST);
        t->events[t->n++] =
            (struct event){words(item, "cat"),         words(item, "name"),
                           number(item, "ts"),         number(item, "ts") + number(item, "dur"),
                           (int)number(item, "tid"),   (long)number(args, "order"),
                           (long)number(args, "bytes")};
        if (strcmp(words(item, "cat"), "operation") == 0)
            assert_true(strlen(words(args, "algorithm")) > 2);
    }
}

static int by_row(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1)
                                : (x->end > y->end) - (x->end < y->end);
}

static long bytes_of(const struct timeline *t, const char *category, const char *name)
{
    long bytes = 0;

    for (int i = 0; i < t->n; i++)
        if (!strcmp(t->events[i].category, category) && !strcmp(t->events[i].name, name) &&
            (strcmp(category, "step") != 0 || t->events[i].bytes > EAGER))
            bytes += t->events[i].bytes;
    return bytes;
}

/* A step lies in its operation. */
static void lies_within(const struct timeline *t, const struct event *step)
{
    for (int i = 0; i < t->n; i++) {
        const struct event *op = &t->events[i];

        if (!strcmp(op->category, "operation") && op->order == step->order) {
            assert_true(op->begin <= step->begin + 0.01 && step->end <= op->end + 0.01);
            return;
        }
    }
    fail_msg("a step of operation %ld, which is not in the file", step->order);
}

static void check(int rank)
{
    struct timeline t;
    int operations = 0, titled = 0;

    load(rank, &t);
    for (int i = 0; i < t.n; i++) {
        operations +=
            !strcmp(t.events[i].category, "operation") && !strcmp(t.events[i].name, "allreduce");
        titled +=
            !strcmp(t.events[i].category, "operation") && !strcmp(t.events[i].name, "fc1 to ?fc2?");
        if (!strcmp(t.events[i].category, "step"))
            lies_within(&t, &t.events[i]);
    }
    assert_int_equal(operations, 2 * TIMES);
    assert_int_equal(titled, 1);
    assert_true(bytes_of(&t, "step", "send") >= (long)COUNT * 4 * TIMES);
    assert_true(bytes_of(&t, "step", "reduce") >= (long)COUNT * 2 * TIMES);
    assert_int_equal(bytes_of(&t, "slice", "send slice"), bytes_of(&t, "step", "send"));
    assert_int_equal(bytes_of(&t, "slice", "slice arrives"), bytes_of(&t, "step", "receive"));
    qsort(t.events, (size_t)t.n, sizeof *t.events, by_row);
    for (int i = 0; i + 1 < t.n; i++)
        if (t.events[i].row == t.events[i + 1].row)
            assert_true(t.events[i].end <=
                        t.events[i + 1].begin + 0.01); /* as far as doubles of a day tell */
    free(t.events);
    cJSON_Delete(t.root);
}

static void has_operations_alone(int rank)
{
    struct timeline t;

    load(rank, &t);
    assert_true(t.n >= 2 * TIMES);
    for (int i = 0; i < t.n; i++)
        assert_string_equal(t.events[i].category, "operation");
    free(t.events);
    cJSON_Delete(t.root);
}

static void trace__of_two_ranks(void **state)
{
    struct ranks job = ranks_kinds[1];
    char pattern[64];

    (void)state;
    job.size = 2;
    job.timeout_ms = 60000;
    job.eager_bytes = EAGER;
    snprintf(pattern, sizeof pattern, "%s/job.json", folder);
    assert_int_equal(setenv("BRAID_TRACE", pattern, 1), 0);
    assert_int_equal(setenv("BRAID_TRACE_DETAIL", "1000000000", 1), 0);
    ranks_run(&job, works, NULL);
    check(0);
    check(1);
    setenv("BRAID_TRACE_DETAIL", "0", 1);
    ranks_run(&job, works, NULL);
    unsetenv("BRAID_TRACE");
    unsetenv("BRAID_TRACE_DETAIL");
    has_operations_alone(0);
}

static int in_the_segment(struct braid_comm *comm, void *context)
{
    static float in[2 * COUNT], out[2 * COUNT];
    struct braid_options options = {.title = "fc3"};
    struct braid_op *op;

    (void)context;
    RETURNS(0, braid_allreduce(comm, in, out, 2, BRAID_FLOAT32, BRAID_SUM, NULL, NULL));
    RETURNS(0, braid_allreduce(comm, in, out, 5000, BRAID_FLOAT32, BRAID_SUM, &options, NULL));
    RETURNS(0, braid_allreduce(comm, in, out, 6000, BRAID_FLOAT32, BRAID_SUM, &options, &op));
    RETURNS(0, braid_wait(op, -1));
    return braid_allgather(comm, in, out, 7, BRAID_FLOAT32, NULL, NULL);
}

/* Through the shared segment: a bar for each larger operation, blocking or not. */
static void trace__of_a_host(void **state)
{
    struct ranks job = ranks_kinds[2];
    char pattern[64];
    struct timeline t;

    (void)state;
    job.size = 2;
    job.timeout_ms = 60000;
    snprintf(pattern, sizeof pattern, "%s/job.json", folder);
    assert_int_equal(setenv("BRAID_TRACE", pattern, 1), 0);
    ranks_run(&job, in_the_segment, NULL);
    unsetenv("BRAID_TRACE");
    for (int rank = 0; rank < 2; rank++) {
        load(rank, &t);
        assert_int_equal(t.n, 2);
        assert_int_equal(bytes_of(&t, "operation", "fc3"), 4 * 11000);
        free(t.events);
        cJSON_Delete(t.root);
    }
}

static int between(struct braid_comm *comm, void *context)
{
    static float x[COUNT];
    char path[128], again[128];

    for (int i = 0; i < 6; i++) { /* those of 2 and 3 floats, and of 5, are recorded */
        if (i == 1 || i == 4)
            RETURNS(0, braid_trace_start(comm, context, path, sizeof path));
        if (i == 3)
            RETURNS(0, braid_trace_stop(comm));
        RETURNS(0,
                braid_allreduce(comm, x, x, (size_t)i + 1, BRAID_FLOAT32, BRAID_SUM, NULL, NULL));
    }
    RETURNS(0, braid_trace_stop(comm));
    RETURNS(0, braid_trace_start(comm, "/another.json", again, sizeof again));
    CHECK(!strcmp(path, again), "%s, then %s", path, again);
    RETURNS(-ENAMETOOLONG, braid_trace_start(comm, context, again, 3));
    return 0;
}

static void trace__of_a_while(void **state)
{
    struct ranks job = ranks_kinds[1];
    char pattern[64];
    struct timeline t;
    long bytes = 0;

    (void)state;
    job.size = 2;
    job.timeout_ms = 60000;
    snprintf(pattern, sizeof pattern, "%s/job.json", folder);
    ranks_run(&job, between, pattern);
    for (int rank = 0; rank < 2; rank++) {
        load(rank, &t);
        bytes += bytes_of(&t, "operation", "allreduce");
        free(t.events);
        cJSON_Delete(t.root);
    }
    assert_int_equal(bytes, 2 * 4 * (2 + 3 + 5 + 6));
}

/* ---- several jobs, several threads ----------------------------------------------------------- */

#define STARTERS 8

struct starter {
    pthread_t thread;
    struct braid_comm *comm;
    pthread_barrier_t *together;
    char path[128];
    int rc;
};

static void *start_recording(void *argument)
{
    struct starter *s = argument;
    char pattern[64];

    snprintf(pattern, sizeof pattern, "%s/many.json", folder);
    pthread_barrier_wait(s->together);
    s->rc = braid_trace_start(s->comm, pattern, s->path, sizeof s->path);
    return NULL;
}

/* A start that fails leaves nothing; of those at once one opens the file that all name. */
static int starts(struct braid_comm *comm, void *context)
{
    struct starter starters[STARTERS];
    pthread_barrier_t together;
    char wanted[64], pattern[64], path[128];

    (void)context;
    snprintf(wanted, sizeof wanted, "%s/many.json", folder);
    snprintf(pattern, sizeof pattern, "%s/%%r/many.json", folder);
    SAYS(-ENOENT, "No such file", braid_trace_start(comm, pattern, path, sizeof path));
    SAYS(-EISDIR, "braid_trace_start|folder", braid_trace_start(comm, folder, path, sizeof path));
    SAYS(-ENAMETOOLONG, "braid_trace_start|bytes", braid_trace_start(comm, wanted, path, 3));
    CHECK(access(wanted, F_OK), "the file of a start that has failed");
    pthread_barrier_init(&together, NULL, STARTERS);
    for (int i = 0; i < STARTERS; i++) {
        starters[i] = (struct starter){.comm = comm, .together = &together};
        RETURNS(0, pthread_create(&starters[i].thread, NULL, start_recording, &starters[i]));
    }
    for (int i = 0; i < STARTERS; i++) {
        pthread_join(starters[i].thread, NULL);
        CHECK(!starters[i].rc && !strcmp(starters[i].path, wanted), "%d: %s", starters[i].rc,
              starters[i].path);
    }
    pthread_barrier_destroy(&together);
    RETURNS(0, braid_trace_stop(comm));
    RETURNS(0, access(wanted, F_OK));
    return unlink(wanted);
}

static void trace__starts_at_once(void **state)
{
    struct ranks job = {.size = 1, .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&job, starts, NULL);
}

/* Each rank has a job of its own as well, in which it is rank 0: two at once, then a third. */
static int more_jobs(struct braid_comm *comm, void *context)
{
    struct braid_config alone = {.size = 1};
    struct braid_comm *own;
    char path[64];

    (void)context;
    for (int i = 2; i < 4; i++) {
        RETURNS(0, braid_init(&alone, &own));
        snprintf(path, sizeof path, "%s/job.%d.%d.json", folder, braid_rank(comm), i);
        CHECK(!access(path, F_OK), "no %s", path);
        RETURNS(0, braid_finalize(own));
        RETURNS(0, unlink(path));
    }
    return works(comm, NULL);
}

static void trace__of_several_jobs(void **state)
{
    struct ranks job = ranks_kinds[1];
    char pattern[64];

    (void)state;
    job.size = 2;
    job.timeout_ms = 60000;
    snprintf(pattern, sizeof pattern, "%s/job.json", folder);
    setenv("BRAID_TRACE", pattern, 1);
    setenv("BRAID_TRACE_DETAIL", "0", 1);
    ranks_run(&job, more_jobs, NULL);
    unsetenv("BRAID_TRACE");
    unsetenv("BRAID_TRACE_DETAIL");
    has_operations_alone(0);
    has_operations_alone(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace__of_a_host), cmocka_unit_test(trace__of_two_ranks),
        cmocka_unit_test(trace__of_a_while), cmocka_unit_test(trace__starts_at_once),
        cmocka_unit_test(trace__of_several_jobs)};
    char path[64];
    int rc;

    if (!mkdtemp(folder))
        return 1;
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    for (int r = 0; r < 2; r++) {
        snprintf(path, sizeof path, "%s/job.%d.json", folder, r);
        unlink(path);
    }
    rmdir(folder);
    return rc;
}
