/* SPDX-License-Identifier: BSD-3-Clause */
/* Every argument of every public call, by a communicator of one rank; more ranks are in
 * tests/system/. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/collectives/comm/single_rank.h"

#include <braid/braid.h>
#include <sodium.h>

#include "protocol/bootstrap/secret.h"

#define I32 BRAID_INT32
#define SUM BRAID_SUM

static void collective__arguments(void **state)
{
    enum braid_type no_type = (enum braid_type)77, negative = (enum braid_type) - 1;
    enum braid_reduction none = (enum braid_reduction)99;

    (void)state;
    SAYS(-EINVAL, "braid_allreduce|communicator",
         braid_allreduce(NULL, in, out, 8, I32, SUM, NULL, NULL));
    SAYS(-EINVAL, "send|NULL", braid_allreduce(comm, NULL, out, 8, I32, SUM, NULL, NULL));
    SAYS(-EINVAL, "recv|NULL", braid_allreduce(comm, in, NULL, 8, I32, SUM, NULL, NULL));
    SAYS(-EINVAL, "data type 77", braid_allreduce(comm, in, out, 8, no_type, SUM, NULL, NULL));
    SAYS(-EINVAL, "data type -1", braid_allreduce(comm, in, out, 8, negative, SUM, NULL, NULL));
    SAYS(-EINVAL, "reduction 99", braid_allreduce(comm, in, out, 8, I32, none, NULL, NULL));
    SAYS(-EINVAL, "braid_allreduce|bxor|float32",
         braid_allreduce(comm, in, out, 8, BRAID_FLOAT32, BRAID_BXOR, NULL, NULL));
    SAYS(-EINVAL, "reduction",
         braid_allreduce(comm, in, out, 8, I32, BRAID_REDUCTION_USER, NULL, NULL));
    SAYS(-EINVAL, "memory", braid_allreduce(comm, in, out, SIZE_MAX, I32, SUM, NULL, NULL));
    SAYS(-EINVAL, "braid_reduce_scatter: send",
         braid_reduce_scatter(comm, NULL, out, 8, I32, SUM, NULL, NULL));
    SAYS(-EINVAL, "braid_reduce_scatter: recv",
         braid_reduce_scatter(comm, in, NULL, 8, I32, SUM, NULL, NULL));
    SAYS(-EINVAL, "reduction 99", braid_reduce_scatter(comm, in, out, 8, I32, none, NULL, NULL));
    SAYS(-EINVAL, "braid_allgather: send", braid_allgather(comm, NULL, out, 8, I32, NULL, NULL));
    SAYS(-EINVAL, "braid_allgather: recv", braid_allgather(comm, in, NULL, 8, I32, NULL, NULL));
    SAYS(-EINVAL, "data type 77", braid_allgather(comm, in, out, 8, no_type, NULL, NULL));
    SAYS(-EINVAL, "root|1|0 to 0", braid_broadcast(comm, in, out, 8, I32, 1, NULL, NULL));
    SAYS(-EINVAL, "root|-1", braid_broadcast(comm, in, out, 8, I32, -1, NULL, NULL));
    SAYS(-EINVAL, "braid_broadcast: send", braid_broadcast(comm, NULL, out, 8, I32, 0, NULL, NULL));
    SAYS(-EINVAL, "braid_broadcast: recv", braid_broadcast(comm, in, NULL, 8, I32, 0, NULL, NULL));
    SAYS(-EINVAL, "root|7", braid_reduce(comm, in, out, 8, I32, SUM, 7, NULL, NULL));
    SAYS(-EINVAL, "braid_reduce: recv", braid_reduce(comm, in, NULL, 8, I32, SUM, 0, NULL, NULL));
    SAYS(-EINVAL, "braid_barrier|communicator", braid_barrier(NULL, NULL, NULL));
}

static void collective__options(void **state)
{
    struct braid_options timeout = {.timeout_ms = -1}, name = {.algorithm = "quantum"};
    struct braid_options too_long = {.algorithm = "dissemination of all that is known"},
                         other = {.algorithm = "tree"};
    struct braid_op *op;

    (void)state;
    SAYS(-EINVAL, "timeout_ms|-1", braid_barrier(comm, &timeout, NULL));
    SAYS(-EINVAL, "timeout_ms|-1", braid_send(comm, in, 4, 0, &timeout, NULL));
    SAYS(-EINVAL, "algorithm|'quantum'", braid_allreduce(comm, in, out, 8, I32, SUM, &name, NULL));
    SAYS(-EINVAL, "algorithm|dissemination of", braid_barrier(comm, &too_long, NULL));
    SAYS(-EINVAL, "tree|allreduce", braid_allreduce(comm, in, out, 8, I32, SUM, &other, NULL));
    assert_int_equal(braid_allreduce(comm, in, out, 8, I32, SUM, &name, &op), 0);
    SAYS(-EINVAL, "quantum", braid_wait(op, -1)); /* and the communicator lives on */
    assert_int_equal(braid_allreduce(comm, in, out, 8, I32, SUM, NULL, NULL), 0);
    assert_memory_equal(in, out, sizeof in);
}

static void persistent__arguments(void **state)
{
    struct braid_op *op;
    int done = 7;

    (void)state;
    SAYS(-EINVAL, "braid_allreduce_init",
         braid_allreduce_init(comm, in, out, 8, I32, SUM, NULL, NULL));
    SAYS(-EINVAL, "braid_reduce_scatter_init",
         braid_reduce_scatter_init(comm, in, out, 8, I32, SUM, NULL, NULL));
    SAYS(-EINVAL, "braid_allgather_init", braid_allgather_init(comm, in, out, 8, I32, NULL, NULL));
    SAYS(-EINVAL, "braid_broadcast_init",
         braid_broadcast_init(comm, in, out, 8, I32, 0, NULL, NULL));
    SAYS(-EINVAL, "braid_reduce_init",
         braid_reduce_init(comm, in, out, 8, I32, SUM, 0, NULL, NULL));
    SAYS(-EINVAL, "braid_alltoall_init", braid_alltoall_init(comm, in, out, 8, I32, NULL, NULL));
    SAYS(-EINVAL, "braid_gather_init", braid_gather_init(comm, in, out, 8, I32, 0, NULL, NULL));
    SAYS(-EINVAL, "braid_scatter_init", braid_scatter_init(comm, in, out, 8, I32, 0, NULL, NULL));
    SAYS(-EINVAL, "braid_barrier_init", braid_barrier_init(comm, NULL, NULL));
    SAYS(-EINVAL, "braid_start|operation", braid_start(NULL));
    SAYS(-EINVAL, "braid_wait|operation", braid_wait(NULL, 0));
    SAYS(-EINVAL, "braid_test|operation", braid_test(NULL, &done));
    assert_int_equal(braid_op_free(NULL), 0);
    assert_int_equal(braid_barrier_init(comm, NULL, &op), 0);
    SAYS(-EINVAL, "braid_test|done|NULL", braid_test(op, NULL));
    SAYS(-EINVAL, "started", braid_wait(op, 0));
    assert_int_equal(braid_start(op), 0);
    assert_int_equal(braid_wait(op, -1), 0);
    assert_int_equal(braid_op_free(op), 0);
    assert_int_equal(braid_barrier(comm, NULL, &op), 0);
    SAYS(-EINVAL, "braid_start|persistent", braid_start(op));
    assert_int_equal(braid_op_free(op), 0);
    SAYS(-EINVAL, "not there any more", braid_wait(op, -1));
}

/*
 * A braid_key is sent to other ranks in clear and travels in every PUT and GET. It must show
 * nothing of the job's key. Up to version 7 of the protocol its check was (8 bytes of the job's key
 * * an odd constant) >> 1, which anybody can invert.
 */
static void key__check_is_no_part_of_the_secret(void **state)
{
    static const char secret[] = "a secret of a test, 32 bytes long";
    static const uint8_t label[] = "braid region key";
    uint64_t inverse = 1, shown, start;
    struct braid_comm *job;
    struct br_secret master;
    struct braid_key key;
    uint8_t derived[32];
    void *memory;

    (void)state;
    assert_int_equal(br_secret_derive(secret, strlen(secret), &master), 0);
    assert_int_equal(braid_init(&(struct braid_config){.size = 1, .secret = secret}, &job), 0);
    memory = braid_alloc(job, 100);
    assert_non_null(memory);
    assert_int_equal(braid_key(job, memory, &key), 0);
    for (int i = 0; i < 6; i++) /* Newton's iteration: the inverse modulo 2^64 */
        inverse *= 2 - 0x9e3779b97f4a7c15ull * inverse;
    memcpy(&start, master.key, sizeof start);
    for (uint64_t lost = 0; lost < 2; lost++)
        assert_true(start != (key.check << 1 | lost) * inverse);
    for (size_t i = 0; i + sizeof shown <= sizeof master.key; i++)
        assert_memory_not_equal(master.key + i, &key.check, sizeof shown);
    crypto_generichash(derived, sizeof derived, label, sizeof label - 1, master.key,
                       sizeof master.key);
    assert_memory_equal(&key.check, derived, sizeof key.check);
    assert_int_equal(braid_free(job, memory), 0);
    assert_int_equal(braid_finalize(job), 0);
}

static void point_to_point__arguments(void **state)
{
    struct braid_key key, foreign;
    struct braid_op *op;
    uint8_t *memory = braid_alloc(comm, 100);
    uint64_t word;

    (void)state;
    assert_non_null(memory);
    assert_int_equal(braid_key(comm, memory, &key), 0);
    SAYS(-EINVAL, "no communicator", braid_send(NULL, in, 4, 0, NULL, NULL));
    SAYS(-EINVAL, "peer is 1, ranks are 0 to 0", braid_send(comm, in, 4, 1, NULL, NULL));
    SAYS(-EINVAL, "peer is -1", braid_recv(comm, in, 4, -1, NULL, NULL));
    SAYS(-EINVAL, "memory|NULL", braid_send(comm, NULL, 4, 0, NULL, NULL));
    SAYS(-EINVAL, "memory|NULL", braid_recv(comm, NULL, 4, 0, NULL, NULL));
    SAYS(-EINVAL, "no key", braid_put(comm, in, 4, NULL, 0, NULL, NULL));
    SAYS(-EINVAL, "no key", braid_get(comm, in, 4, NULL, 0, NULL, NULL));
    SAYS(-EINVAL, "no key", braid_fetch_add(comm, &word, 1, NULL, 0, NULL, NULL));
    SAYS(-EINVAL, "memory|NULL", braid_fetch_add(comm, NULL, 1, &key, 0, NULL, NULL));
    SAYS(-EACCES, "not in a region", braid_compare_swap(comm, &word, 0, 1, &key, 96, NULL, NULL));
    SAYS(-EINVAL, "not on a multiple of 8",
         braid_compare_swap(comm, &word, 0, 1, &key, 4, NULL, NULL));
    assert_int_equal(braid_compare_swap(comm, &word, 0, 41, &key, 88, NULL, NULL), 0);
    assert_int_equal(braid_fetch_add(comm, &word, 1, &key, 88, NULL, NULL), 0);
    assert_int_equal(word, 41);
    SAYS(-EACCES, "not in a region of 100 bytes", braid_put(comm, in, 4, &key, 97, NULL, NULL));
    SAYS(-EACCES, "not in a region", braid_get(comm, in, 4, &key, UINT64_MAX, NULL, NULL));
    SAYS(-EACCES, "not in a region", braid_get(comm, in, SIZE_MAX, &key, 0, NULL, NULL));
    foreign = key;
    foreign.check++;
    SAYS(-EACCES, "no region", braid_put(comm, in, 4, &foreign, 0, NULL, NULL));
    foreign = key;
    foreign.bytes = 1000;
    SAYS(-EACCES, "no region", braid_put(comm, in, 4, &foreign, 97, NULL, NULL));
    foreign.rank = UINT32_MAX;
    SAYS(-EINVAL, "peer is", braid_get(comm, in, 4, &foreign, 0, NULL, NULL));
    assert_int_equal(braid_put(comm, in, 32, &key, 3, NULL, NULL), 0);
    assert_int_equal(braid_get(comm, out, 32, &key, 3, NULL, NULL), 0);
    assert_memory_equal(in, out, 32);
    assert_int_equal(braid_free(comm, memory), 0);
    SAYS(-EACCES, "no region", braid_get(comm, in, 4, &key, 0, NULL, NULL));
    assert_int_equal(braid_send(comm, in, 20, 0, NULL, &op), 0);
    memset(out, 0, sizeof out);
    assert_int_equal(braid_recv(comm, out, 20, 0, NULL, NULL), 0);
    assert_int_equal(braid_wait(op, -1), 0);
    assert_memory_equal(in, out, 20);
}

/* Options of headers older and newer than the library. */
static void options__other_versions(void **state)
{
    struct braid_options old = {.struct_size = offsetof(struct braid_options, timeout_ms),
                                .timeout_ms = -1};
    struct {
        struct braid_options options;
        uint64_t newer;
    } next = {.options = {.struct_size = sizeof next, .timeout_ms = 1000}};
    struct braid_op *op;

    (void)state;
    assert_int_equal(braid_barrier(comm, &old, NULL), 0); /* the program does not know timeout_ms */
    assert_int_equal(braid_barrier(comm, &next.options, NULL), 0);
    assert_int_equal(braid_send(comm, in, 4, 0, &next.options, &op), 0);
    assert_int_equal(braid_recv(comm, out, 4, 0, &old, NULL), 0);
    assert_int_equal(braid_wait(op, -1), 0);
    next.newer = 1;
    SAYS(-EINVAL, "braid_barrier|braid_options|newer", braid_barrier(comm, &next.options, NULL));
    SAYS(-EINVAL, "braid_send|braid_options|newer",
         braid_send(comm, in, 4, 0, &next.options, NULL));
    next.newer = 0;
    next.options.timeout_ms = -1; /* is read although the struct has another size */
    SAYS(-EINVAL, "timeout_ms|-1", braid_barrier(comm, &next.options, NULL));
    old.struct_size = 5000;
    SAYS(-EINVAL, "struct_size|5000", braid_barrier(comm, &old, NULL));
}

static void init__struct_size(void **state)
{
    struct braid_config config = {
        .struct_size = offsetof(struct braid_config, pin_cpu), .size = 1, .pin_cpu = 4096};
    struct braid_comm *job;

    (void)state;
    assert_int_equal(braid_init(&config, &job), 0);
    assert_int_equal(braid_finalize(job), 0);
    config.struct_size = 3;
    SAYS(-EINVAL, "braid_config|struct_size", braid_init(&config, &job));
}

/* Counters into a struct of an older header, and into one that was not set to zero. */
static void stats__struct_size(void **state)
{
    struct braid_stats stats = {.struct_size = offsetof(struct braid_stats, failed_operations)};
    struct braid_rail_stats rail = {.struct_size = SIZE_MAX / 3};

    (void)state;
    assert_int_equal(braid_barrier(comm, NULL, NULL), 0);
    stats.failed_operations = 77;
    assert_int_equal(braid_stats(comm, &stats), 0);
    assert_int_equal(stats.operations, 1);
    assert_int_equal(stats.failed_operations, 77);
    stats.struct_size = 7;
    SAYS(-EINVAL, "braid_stats|struct_size", braid_stats(comm, &stats));
    SAYS(-EINVAL, "braid_rail_stats|struct_size", braid_rail_stats(comm, &rail, 1));
    SAYS(-EINVAL, "braid_peer_stats|struct_size",
         braid_peer_stats(comm, &(struct braid_peer_stats){.struct_size = 1}, 1));
}

static void insight__arguments(void **state)
{
    struct braid_rail_stats rail = {0};
    struct braid_stats stats = {0};

    (void)state;
    SAYS(-EINVAL, "braid_rank", braid_rank(NULL));
    SAYS(-EINVAL, "braid_size", braid_size(NULL));
    SAYS(-EINVAL, "braid_stats", braid_stats(NULL, &stats));
    SAYS(-EINVAL, "braid_stats", braid_stats(comm, NULL));
    SAYS(-EINVAL, "braid_rail_stats", braid_rail_stats(NULL, &rail, 1));
    SAYS(-EINVAL, "braid_rail_stats", braid_rail_stats(comm, NULL, 1));
    SAYS(-EINVAL, "braid_comm_abort", braid_comm_abort(NULL, NULL));
    SAYS(-EINVAL, "store", braid_init(NULL, NULL));
    assert_int_equal(braid_rail_stats(comm, NULL, 0), 0);
    assert_null(braid_algorithm(NULL, "allreduce", 1, I32));
    assert_null(braid_algorithm(comm, NULL, 1, I32));
    assert_null(braid_algorithm(comm, "all", 1, I32));
    assert_null(braid_algorithm(comm, "allreduce", 1, (enum braid_type)77));
    assert_non_null(braid_algorithm(comm, "allreduce", 1, I32));
    assert_int_equal(braid_rank(comm), 0);
    assert_int_equal(braid_size(comm), 1);
    assert_int_equal(braid_finalize(NULL), 0);
}

static void init__cpu_that_is_not_there(void **state)
{
    struct braid_comm *none = NULL;

    (void)state;
    SAYS(-EINVAL, "CPU 4095",
         braid_init(&(struct braid_config){.size = 1, .pin_cpu = 4096}, &none));
    assert_null(none);
}

static void abort__ends_everything(void **state)
{
    struct braid_op *op;

    (void)state;
    assert_int_equal(braid_recv(comm, out, 20, 0, NULL, &op), 0);
    assert_int_equal(braid_comm_abort(comm, "a test"), 0);
    SAYS(-ECANCELED, "a test", braid_wait(op, -1));
    SAYS(-ECANCELED, "a test", braid_barrier(comm, NULL, NULL));
    assert_int_equal(braid_comm_abort(comm, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(collective__arguments, join, leave),
        cmocka_unit_test_setup_teardown(collective__options, join, leave),
        cmocka_unit_test_setup_teardown(persistent__arguments, join, leave),
        cmocka_unit_test(key__check_is_no_part_of_the_secret),
        cmocka_unit_test_setup_teardown(point_to_point__arguments, join, leave),
        cmocka_unit_test_setup_teardown(insight__arguments, join, leave),
        cmocka_unit_test_setup_teardown(options__other_versions, join, leave),
        cmocka_unit_test_setup_teardown(stats__struct_size, join, leave),
        cmocka_unit_test(init__struct_size),
        cmocka_unit_test(init__cpu_that_is_not_there),
        cmocka_unit_test_setup_teardown(abort__ends_everything, join, leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
