/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameter servers between real processes: misuse is refused in words, and an abort ends all
 * calls. Values are test_parameters.c's. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <braid/parameters.h>

#include "tests/system/ranks.h"

#define LAYERS 3

static int wrong_arguments(struct braid_comm *comm)
{
    struct braid_parameter_layer layer = {.count = 4}, none = {0};
    struct braid_parameters *p;
    int twice[2] = {1, 1}, away = 7;

#define WRONG(words, ...)                                                                          \
    SAYS(-EINVAL, words,                                                                           \
         braid_parameters_create(comm, &layer, 1, &(struct braid_parameters_options){__VA_ARGS__}, \
                                 &p))
    SAYS(-EINVAL, "nowhere", braid_parameters_create(comm, &layer, 1, NULL, NULL));
    SAYS(-EINVAL, "0 layers", braid_parameters_create(comm, &layer, 0, NULL, &p));
    SAYS(-EINVAL, "layer 0 has 0", braid_parameters_create(comm, &none, 1, NULL, &p));
    WRONG("method sdg", .method = "sdg");
    WRONG("lamb", .local = "lamb");
    WRONG("not negative", .rate = -1);
    WRONG("less than 1", .momentum = 1);
    WRONG("steps is -1", .steps = -1);
    WRONG("warm-up of 3", .method = "ssd", .warmup = -1);
    WRONG("server twice", .servers = twice, .n_servers = 2);
    WRONG("no rank 7", .servers = &away, .n_servers = 1);
    WRONG("in_order is 2", .in_order = 2);
    WRONG("braid_parameters_options|struct_size", .struct_size = 1);
    WRONG("priority is 2147483647|2147483646", .priority = INT32_MAX);
#undef WRONG
    layer.count += (size_t)braid_rank(comm);
    SAYS(-EPROTO, "differ", braid_parameters_create(comm, &layer, 1, NULL, &p));
    return 0;
}

static int wrong_order(struct braid_comm *comm)
{
    struct braid_parameter_layer layers[2] = {{.count = 4}, {.count = 4}};
    struct braid_parameters *p;

    RETURNS(0, braid_parameters_create(comm, layers, 2, NULL, &p));
    CHECK(!braid_parameters_weight(p, 2) && !braid_parameters_gradient(p, -1),
          "layers that are not there");
    SAYS(-EINVAL, "NULL", braid_parameters_push(NULL, 0));
    SAYS(-EINVAL, "no layer 2", braid_parameters_wait(p, 2));
    SAYS(-EINVAL, "layer 1 is next", braid_parameters_push(p, 0));
    RETURNS(0, braid_parameters_push(p, 1));
    SAYS(-EINVAL, "backward pass", braid_parameters_sync(p));
    RETURNS(0, braid_parameters_push(p, 0));
    RETURNS(0, braid_parameters_sync(p));
    RETURNS(0, braid_parameters_free(p));
    RETURNS(0, braid_parameters_free(NULL));
    return 0;
}

struct within {
    struct braid_parameters *p;
    atomic_int wait, sync, free, done;
};

static void wait_within(void *context, int result)
{
    struct within *within = context;

    (void)result;
    within->wait = braid_parameters_wait(within->p, 0);
    within->sync = braid_parameters_sync(within->p);
    within->free = braid_parameters_free(within->p);
    within->done = 1;
}

/* The servers need `done` of their own, of which one runs at a time. */
static int waits_in_done(struct braid_comm *comm)
{
    struct braid_parameter_layer layer = {.count = 4};
    static struct within within;
    const struct braid_options options = {.done = wait_within, .context = &within};

    RETURNS(0, braid_parameters_create(comm, &layer, 1, NULL, &within.p));
    RETURNS(0, braid_parameters_push(within.p, 0));
    RETURNS(0, braid_barrier(comm, &options, NULL));
    while (!within.done)
        sched_yield();
    CHECK(within.wait == -EDEADLK && within.sync == -EDEADLK && within.free == -EDEADLK,
          "within done: wait %d, sync %d, free %d", within.wait, within.sync, within.free);
    RETURNS(0, braid_parameters_free(within.p));
    return 0;
}

/* With two places for a gradient, a pointer of the iteration before is the other one. */
static int old_place(struct braid_comm *comm)
{
    struct braid_parameters_options o = {.method = "ssd", .steps = 2, .warmup = 1};
    struct braid_parameter_layer layer = {.count = 4};
    struct braid_parameters *p;

    RETURNS(0, braid_parameters_create(comm, &layer, 1, &o, &p));
    SAYS(-EINVAL, "braid_parameters_gradient()|iteration", braid_parameters_push(p, 0));
    CHECK(braid_parameters_gradient(p, 0), "no place");
    RETURNS(0, braid_parameters_push(p, 0));
    RETURNS(0, braid_parameters_wait(p, 0));
    SAYS(-EINVAL, "braid_parameters_gradient()|iteration", braid_parameters_push(p, 0));
    RETURNS(0, braid_parameters_free(p));
    return 0;
}

/* Many layers, all under way at once, which takes more than ten thousand operations. */
static int many_layers(struct braid_comm *comm)
{
    enum { MANY = 2000 };
    struct braid_parameters_options o = {
        .method = "ssd", .steps = 1, .warmup = -1, .servers = &(int){0}, .n_servers = 1};
    static struct braid_parameter_layer layers[MANY];
    struct braid_parameters *p;

    for (int l = 0; l < MANY; l++)
        layers[l] = (struct braid_parameter_layer){.count = 1 + (size_t)l % 7};
    RETURNS(0, braid_parameters_create(comm, layers, MANY, &o, &p));
    for (int t = 0; t < 5; t++)
        for (int l = MANY - 1; l >= 0; l--) {
            CHECK(braid_parameters_gradient(p, l), "no place");
            RETURNS(0, braid_parameters_push(p, l));
        }
    RETURNS(0, braid_parameters_free(p));
    return 0;
}

static int misuse(struct braid_comm *comm, void *context)
{
    (void)context;
    return wrong_arguments(comm) || wrong_order(comm) || waits_in_done(comm) || old_place(comm) ||
           many_layers(comm);
}

static void parameters__misuse_is_named(void **state)
{
    struct ranks job = {
        .size = 2, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&job, misuse, NULL);
}

/* The communicator is aborted amidst training: all calls end with its error, and freeing works. */
static int aborted(struct braid_comm *comm, void *context)
{
    struct braid_parameters_options o = {
        .method = "ssd", .steps = 2, .warmup = 3, .slice_bytes = 4000};
    struct braid_parameter_layer layers[LAYERS] = {{.count = 40}, {.count = 6001}, {.count = 1500}};
    struct braid_parameters *p;
    int rc = 0;

    (void)context;
    RETURNS(0, braid_parameters_create(comm, layers, LAYERS, &o, &p));
    for (int t = 0; t < 100000 && !rc; t++) {
        if (t == 5 && braid_rank(comm) == 1)
            braid_comm_abort(comm, "enough");
        for (int l = LAYERS - 1; l >= 0 && !rc; l--) {
            rc = braid_parameters_wait(p, l);
            if (!rc && braid_parameters_gradient(p, l))
                rc = braid_parameters_push(p, l);
        }
    }
    CHECK(rc == -ECANCELED, "the abort was not seen: %d", rc);
    CHECK(strstr(braid_last_error(), "enough"), "other words");
    CHECK(braid_parameters_free(p) == -ECANCELED, "freed without an error");
    return 0;
}

static void parameters__end_with_their_communicator(void **state)
{
    struct ranks job = {
        .size = 2, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&job, aborted, NULL);
}

/* Rank 1 of 3 ends after EARLY iterations, as one does whose program exits; the others would go on.
 */
#define EARLY 5

static int ends_early(struct braid_comm *comm, void *options)
{
    struct braid_parameter_layer layers[LAYERS] = {{.count = 40}, {.count = 6001}, {.count = 1500}};
    struct braid_parameters *p;
    bool ends = braid_rank(comm) == 1;
    int rc = 0, freed;

    RETURNS(0, braid_parameters_create(comm, layers, LAYERS, options, &p));
    for (int t = 0; t < (ends ? EARLY : 100000) && !rc; t++)
        for (int l = LAYERS - 1; l >= 0 && !rc; l--) {
            rc = braid_parameters_wait(p, l);
            if (!rc && braid_parameters_gradient(p, l))
                rc = braid_parameters_push(p, l);
        }
    if (!ends) {
        CHECK(rc == -ECONNRESET || rc == -ECANCELED, "it went on: %d", rc);
        CHECK(strstr(braid_last_error(), "rank 1 has ended its training after 5 iterations"),
              "other words");
    } else {
        CHECK(!rc, "it was not let finish: %d", rc);
    }
    freed = braid_parameters_free(p);
    CHECK(freed == -ECONNRESET || freed == -ECANCELED, "freed: %d", freed);
    CHECK(strstr(braid_last_error(), "rank 1 has ended its training after 5 iterations"),
          "other words");
    return 0;
}

/* Whether or not it serves slices, whoever answers whom: all ranks hear of it, long before the
 * deadline of a call. */
static void parameters__a_rank_ends_early(void **state)
{
    const struct ranks job = {.size = 3, .backend = "shm", .timeout_ms = 1000 * RANKS_LIMIT};
    const char *const methods[] = {"ssgd", "asgd", "ssd", "local"};

    (void)state;
    for (int m = 0; m < 4; m++)
        for (int servers = 0; servers < 2; servers++) {
            struct braid_parameters_options o = {.method = methods[m],
                                                 .warmup = 2 * m,
                                                 .steps = 2,
                                                 .servers = servers ? &(int){2} : NULL,
                                                 .n_servers = servers};

            ranks_run(&job, ends_early, &o);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters__misuse_is_named),
        cmocka_unit_test(parameters__end_with_their_communicator),
        cmocka_unit_test(parameters__a_rank_ends_early),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
