/* SPDX-License-Identifier: BSD-3-Clause */
/* Extents of other processes, mapped here side by side (gpu/ipc.h, note 4). They are this process's
 * own, which the driver allows. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/error.h"
#include "gpu/ipc.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"

#define GRAIN FAKE_CUDA_GRAIN
#define MANY  4u
#define PEER  5 /* the rank that has made it, and that it is handed over to */

static const struct br_cuda *cuda;
static struct br_ipc *ipc;
static br_cuda_pointer memory;
static struct br_ipc_note note;
static struct br_extent extents[BR_EXTENTS];

static int set_up(void **state)
{
    (void)state;
    cuda = fake_fresh_gpu();
    assert_int_equal(cuda->vmm_reserve(&memory, MANY * GRAIN, 0, 0, 0), 0);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(fake_cuda_create(memory + i * GRAIN, GRAIN, true), 0);
    return br_ipc_create(8, &ipc);
}

static int tear_down(void **state)
{
    (void)state;
    fake_cuda()->fail[0] = 0;
    br_ipc_destroy(ipc, false);
    for (uint32_t i = 0; i < MANY; i++)
        cuda->vmm_unmap(memory + i * GRAIN, GRAIN);
    assert_int_equal(cuda->vmm_unreserve(memory, MANY * GRAIN), 0);
    fake_leave_gpu(0);
    return 0;
}

static void take_note(size_t offset, size_t bytes)
{
    assert_int_equal(
        br_ipc_note(ipc, 1, (void *)(uintptr_t)(memory + offset), bytes, &note, extents), 0);
}

/* What two ranks do. */
static void hand_over(void)
{
    for (uint32_t i = 0; i < note.extents; i++) {
        int fd;

        if (!br_ipc_must_send(ipc, PEER, &extents[i]))
            continue;
        fd = br_ipc_open(ipc, 1, &extents[i]);
        assert_true(fd >= 0);
        br_ipc_sent(ipc, PEER, &extents[i]);
        assert_true(br_ipc_must_receive(ipc, PEER, &extents[i]));
        assert_int_equal(br_ipc_take(ipc, 1, PEER, &extents[i], fd), 0);
        assert_false(br_ipc_must_receive(ipc, PEER, &extents[i]));
        assert_int_equal(close(fd), -1); /* it is closed */
    }
}

static int map(size_t bytes, void **at)
{
    return br_ipc_map(ipc, 1, PEER, &note, extents, bytes, at);
}

static char *bytes_at(const void *at)
{
    return fake_cuda_bytes((uintptr_t)at);
}

static void map__side_by_side(void **state)
{
    char *own = bytes_at((void *)(uintptr_t)memory), *at;
    void *within;

    (void)state;
    take_note(GRAIN - 3, 2 * GRAIN);
    assert_int_equal(note.extents, 3);
    hand_over();
    assert_false(br_ipc_has(ipc, 1, PEER, &note, extents));
    assert_int_equal(map(2 * GRAIN, (void **)&at), 0);
    assert_true(br_ipc_has(ipc, 1, PEER, &note, extents));
    strcpy(own + GRAIN - 3, "across");
    strcpy(own + 3 * GRAIN - 8, "end");
    assert_string_equal(bytes_at(at), "across");
    assert_string_equal(bytes_at(at + 2 * GRAIN - 5), "end");

    take_note(2 * GRAIN + 7, GRAIN - 7); /* some of these, so nothing new is mapped */
    assert_true(br_ipc_has(ipc, 1, PEER, &note, extents));
    assert_int_equal(map(GRAIN - 7, &within), 0);
    assert_ptr_equal((char *)within, at + GRAIN + 10);
    take_note(2 * GRAIN, GRAIN + 1); /* one more */
    assert_false(br_ipc_has(ipc, 1, PEER, &note, extents));
}

static void map__what_has_not_come(void **state)
{
    void *at;

    (void)state;
    take_note(0, 2 * GRAIN);
    assert_int_equal(map(2 * GRAIN, &at), -EPROTO);
    hand_over();
    assert_int_equal(map(2 * GRAIN + 1, &at), -EPROTO); /* it is not that large */
    extents[1].bytes += GRAIN;
    note.bytes += GRAIN;
    assert_int_equal(map(GRAIN, &at), -EPROTO);
}

/* A refusal at each place undoes what was done before. */
static void map__refused(void **state)
{
    static const char *const symbols[] = {"cuMemGetAllocationGranularity", "cuMemAddressReserve",
                                          "cuMemMap", "cuMemSetAccess"};
    unsigned left;
    void *at;

    (void)state;
    take_note(0, MANY * GRAIN);
    hand_over();
    left = fake_cuda_left();
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        for (unsigned after = 0; after < (i == 2 ? MANY : 1); after++) {
            strcpy(fake_cuda()->fail, symbols[i]);
            fake_cuda()->fail_result = BR_CUDA_PEER_ACCESS_UNSUPPORTED;
            fake_cuda()->fail_after = after;
            assert_int_equal(map(1, &at), -EOPNOTSUPP);
            assert_non_null(strstr(br_error_message(), "of rank 5's"));
            assert_int_equal(fake_cuda_left(), left);
        }
    fake_cuda()->fail[0] = 0;
    assert_int_equal(map(1, &at), 0);
}

static void take__refuses(void **state)
{
    struct br_extent wrong;
    int fd;

    (void)state;
    take_note(0, 1);
    fd = br_ipc_open(ipc, 1, extents);
    assert_int_equal(br_ipc_take(ipc, 1, PEER, extents, dup(fd)), 0);
    assert_int_equal(br_ipc_take(ipc, 1, PEER, extents, dup(fd)), -EPROTO); /* twice */
    wrong = extents[0];
    wrong.slot = BR_EXTENTS_ALL;
    assert_int_equal(br_ipc_take(ipc, 1, PEER, &wrong, dup(fd)), -EPROTO);
    assert_true(br_ipc_must_receive(ipc, PEER, &wrong));
    wrong.slot = 9;
    assert_int_equal(br_ipc_take(ipc, 1, PEER, &wrong, open("/dev/null", O_RDONLY)), -EINVAL);
    assert_true(br_ipc_must_receive(ipc, PEER, &wrong));
    close(fd);
}

/* Its handle goes at once, the mapping when it can, and is not found meanwhile. */
static void drop__what_is_gone(void **state)
{
    unsigned left = fake_cuda_left();
    void *at;

    (void)state;
    take_note(0, 2 * GRAIN);
    hand_over();
    assert_int_equal(map(1, &at), 0);
    br_ipc_drop(ipc, PEER, &extents[1]);
    assert_true(br_ipc_must_receive(ipc, PEER, &extents[1]));
    assert_false(br_ipc_has(ipc, 1, PEER, &note, extents));
    assert_true(br_ipc_is_stale(ipc));
    br_ipc_clear(ipc);
    assert_false(br_ipc_is_stale(ipc));
    assert_int_equal(fake_cuda_left(), left + 3); /* two exported, one imported */
    br_ipc_drop(ipc, PEER, &extents[1]);          /* nothing to do */
    assert_false(br_ipc_is_stale(ipc));
}

/* That it is gone was told on another communicator, and is heard later than what has its slot
 * now. */
static void take__in_a_slot_of_before(void **state)
{
    struct br_extent old, new;
    void *at;

    (void)state;
    take_note(0, 1);
    hand_over();
    assert_int_equal(map(1, &at), 0);
    old = new = extents[0];
    new.serial += 1;
    assert_int_equal(br_ipc_take(ipc, 1, PEER, &new, br_ipc_open(ipc, 1, &old)), 0);
    assert_false(br_ipc_must_receive(ipc, PEER, &new));
    assert_true(br_ipc_is_stale(ipc));
    br_ipc_drop(ipc, PEER, &old);
    assert_false(br_ipc_must_receive(ipc, PEER, &new));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(map__side_by_side), TEST(map__what_has_not_come),    TEST(map__refused),
        TEST(take__refuses),     TEST(take__in_a_slot_of_before), TEST(drop__what_is_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
