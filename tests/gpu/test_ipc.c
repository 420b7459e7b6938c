/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of GPUs of other processes. The fake driver lets a process map its own here; with real
 * processes: system/gpu_share. */
#include "gpu/ipc.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"

#define BYTES 10000

static const struct br_cuda *cuda;
static struct br_ipc *ipc;
static char *memory;

static char *allocate(size_t bytes)
{
    br_cuda_pointer at;

    assert_int_equal(cuda->memory_alloc(&at, bytes), BR_CUDA_SUCCESS);
    return (char *)(uintptr_t)at;
}

static void release(char *at)
{
    assert_int_equal(cuda->memory_free((uintptr_t)at), BR_CUDA_SUCCESS);
}

static int set_up(void **state)
{
    (void)state;
    cuda = fake_fresh_gpu();
    fake_cuda()->ipc_in_process = true;
    memory = allocate(BYTES);
    return br_ipc_create(8, &ipc);
}

static int tear_down(void **state)
{
    (void)state;
    fake_cuda()->fail[0] = 0;
    br_ipc_destroy(ipc, false);
    if (memory)
        release(memory);
    fake_leave_gpu(0);
    return 0;
}

static char *map(int rank, const struct br_ipc_note *note, size_t bytes)
{
    void *at;

    assert_int_equal(br_ipc_map(ipc, 1, rank, note, NULL, bytes, &at), 0);
    return at;
}

static char *bytes_at(const char *at)
{
    return fake_cuda_bytes((uintptr_t)at);
}

static void map__finds_the_bytes(void **state)
{
    struct br_ipc_note note, again;
    char *there;

    (void)state;
    assert_int_equal(br_ipc_note(ipc, 1, memory + 300, 100, &note, NULL), 0);
    assert_false(br_ipc_has(ipc, 1, 5, &note, NULL));
    there = map(5, &note, 100);
    assert_ptr_not_equal(there, memory + 300);
    strcpy(bytes_at(memory + 300), "braid");
    assert_string_equal(bytes_at(there), "braid");
    assert_true(br_ipc_has(ipc, 1, 5, &note, NULL));
    assert_false(br_ipc_has(ipc, 2, 5, &note, NULL));
    assert_false(br_ipc_has(ipc, 1, 6, &note, NULL));
    /* of the same allocation */
    assert_int_equal(br_ipc_note(ipc, 1, memory + 2000, 100, &again, NULL), 0);
    assert_true(br_ipc_has(ipc, 1, 5, &again, NULL));
    assert_ptr_equal(map(5, &again, 100), there + 1700);
}

static void note__within_the_allocation(void **state)
{
    struct br_ipc_note note;
    void *at;

    (void)state;
    assert_int_equal(br_ipc_note(ipc, 1, memory + 1, BYTES, &note, NULL), -EINVAL);
    assert_int_equal(br_ipc_note(ipc, 1, memory + 1, BYTES - 1, &note, NULL), 0);
    assert_int_equal(br_ipc_map(ipc, 1, 3, &note, NULL, BYTES, &at), -EPROTO);
    assert_non_null(strstr(br_error_message(), "rank 3"));
    note.offset = UINT64_MAX;
    assert_int_equal(br_ipc_map(ipc, 1, 3, &note, NULL, 1, &at), -EPROTO);
}

/* Freed and allocated again, at the same address or elsewhere: what is read is the new one. */
static void map__after_the_memory_was_freed(void **state)
{
    struct br_ipc_note old, new;

    (void)state;
    assert_int_equal(br_ipc_note(ipc, 1, memory, 10, &old, NULL), 0);
    strcpy(bytes_at(memory), "old");
    map(5, &old, 10);
    release(memory);
    memory = allocate(BYTES);
    assert_int_equal(br_ipc_note(ipc, 1, memory, 10, &new, NULL), 0);
    assert_memory_not_equal(&old.handle, &new.handle, sizeof old.handle);
    strcpy(bytes_at(memory), "new");
    assert_string_equal(bytes_at(map(5, &new, 10)), "new");
}

/* The mapping of an allocation that is no more is closed. */
static void map__closes_what_is_stale(void **state)
{
    struct br_ipc_note old, new;
    char *other = allocate(BYTES);
    unsigned left;

    (void)state;
    assert_int_equal(br_ipc_note(ipc, 1, memory, 10, &old, NULL), 0);
    assert_int_equal(br_ipc_note(ipc, 1, other, 10, &new, NULL), 0);
    map(5, &old, 10);
    left = fake_cuda_left();
    new.base = old.base + BYTES - 1;
    map(6, &new, 10); /* of another process: nothing to do with it */
    assert_true(br_ipc_has(ipc, 1, 5, &old, NULL));
    assert_int_equal(fake_cuda_left(), left + 1);
    map(5, &new, 10);
    assert_false(br_ipc_has(ipc, 1, 5, &old, NULL));
    assert_int_equal(fake_cuda_left(), left + 1);
    release(other);
}

/* More than are kept: the ones used longest ago go. */
static void map__of_many(void **state)
{
    struct br_ipc_note first, note;
    unsigned left = fake_cuda_left();

    (void)state;
    assert_int_equal(br_ipc_note(ipc, 1, memory, 10, &first, NULL), 0);
    for (int rank = 0; rank < 1100; rank++) {
        note = first;
        map(rank, &note, 10);
        map(0, &first, 10);
    }
    assert_int_equal(fake_cuda_left(), left + 1024);
    assert_true(br_ipc_has(ipc, 1, 0, &first, NULL));
    assert_false(br_ipc_has(ipc, 1, 1, &first, NULL));
    assert_true(br_ipc_has(ipc, 1, 1099, &first, NULL));
}

/* What an operation uses stays mapped, whatever others map meanwhile. */
static void hold__keeps_all(void **state)
{
    struct br_ipc_note note;
    unsigned left = fake_cuda_left();

    (void)state;
    assert_int_equal(br_ipc_note(ipc, 1, memory, 10, &note, NULL), 0);
    map(0, &note, 10);
    br_ipc_retain(ipc);
    for (int rank = 1; rank < 1100; rank++)
        map(rank, &note, 10);
    assert_true(br_ipc_has(ipc, 1, 0, &note, NULL));
    assert_int_equal(fake_cuda_left(), left + 1100);
    br_ipc_release(ipc);
    map(1100, &note, 10);
    assert_false(br_ipc_has(ipc, 1, 0, &note, NULL));
    assert_int_equal(fake_cuda_left(), left + 1024);
}

static void refusals__have_messages(void **state)
{
    static const struct {
        const char *symbol;
        br_cuda_result result;
        int rc;
    } cases[] = {{"cuMemGetAddressRange_v2", BR_CUDA_NOT_FOUND, -EIO},
                 {"cuIpcGetMemHandle", BR_CUDA_INVALID_VALUE, -EINVAL}, /* cudaMallocAsync() */
                 {"cuIpcOpenMemHandle_v2", BR_CUDA_PEER_ACCESS_UNSUPPORTED, -EOPNOTSUPP},
                 {"cuIpcOpenMemHandle_v2", BR_CUDA_INVALID_CONTEXT, -EIO}}; /* its own */
    struct br_ipc_note note;
    void *at;
    int rc;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strcpy(fake_cuda()->fail, cases[i].symbol);
        fake_cuda()->fail_result = cases[i].result;
        rc = br_ipc_note(ipc, 1, memory, 10, &note, NULL);
        if (!rc)
            rc = br_ipc_map(ipc, 1, 5, &note, NULL, 10, &at);
        assert_int_equal(rc, cases[i].rc);
        assert_non_null(strstr(br_error_message(), "CUDA_ERROR"));
        assert_false(br_ipc_has(ipc, 1, 5, &note, NULL));
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(map__finds_the_bytes),
        TEST(note__within_the_allocation),
        TEST(map__after_the_memory_was_freed),
        TEST(map__closes_what_is_stale),
        TEST(map__of_many),
        TEST(hold__keeps_all),
        TEST(refusals__have_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
