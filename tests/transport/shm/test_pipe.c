/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/random.h"
#include "transport/shm/pipe.h"

/* Two ends of a link: a writes into inbox `x`, b into inbox `y`. */
struct ends {
    struct br_inbox x, y;
    struct br_pipe a, b;
};

static int set_up(void **state)
{
    struct ends *ends = calloc(1, sizeof *ends);
    int fd;

    for (int i = 0; i < 2; i++) {
        if (br_inbox_create(i ? &ends->x : &ends->y, 64, 1, &fd))
            return -1;
        close(fd);
    }
    br_pipe_init(&ends->a, &ends->y, &ends->x);
    br_pipe_init(&ends->b, &ends->x, &ends->y);
    *state = ends;
    return 0;
}

static int tear_down(void **state)
{
    struct ends *ends = *state;

    br_inbox_unmap(&ends->x);
    br_inbox_unmap(&ends->y);
    free(ends);
    return 0;
}

/* Writes `value` and hands it over. Returns the buffer, or NULL when there is none. */
static uint8_t *give(struct br_pipe *pipe, uint64_t value)
{
    bool fresh, room = br_pipe_has_room(pipe);
    int number = br_pipe_take(pipe, false, &fresh);
    uint8_t *buffer;

    assert_int_equal(room, number >= 0);
    if (number < 0)
        return NULL;
    buffer = br_pipe_buffer(pipe, (uint32_t)number);
    memcpy(buffer, &value, sizeof value);
    br_pipe_hand_over(pipe, (uint32_t)number);
    return buffer;
}

/* Reads what must be `value`. Returns the buffer, or NULL when none has arrived. */
static uint8_t *get(struct br_pipe *pipe, uint64_t value)
{
    int number = br_pipe_arrived(pipe);
    uint8_t *buffer;

    if (number == -EAGAIN)
        return NULL;
    assert_true(number >= 0);
    buffer = br_pipe_buffer(pipe, (uint32_t)number);
    assert_memory_equal(buffer, &value, sizeof value);
    br_pipe_keep(pipe, (uint32_t)number);
    return buffer;
}

/* An end writes where it has read last. */
static void keep__is_written_next(void **state)
{
    struct ends *ends = *state;
    uint8_t *first = give(&ends->a, 0), *buffer;

    assert_non_null(first);
    assert_ptr_equal(get(&ends->b, 0), first);
    while (ends->a.fresh || ends->b.fresh) /* afterwards none is fresh */
        for (uint64_t i = 0; i < 16; i++) {
            (void)give(&ends->a, i), (void)get(&ends->b, i);
            (void)give(&ends->b, i), (void)get(&ends->a, i);
        }
    buffer = give(&ends->a, 1);
    for (int i = 0; i < 100; i++) {
        assert_ptr_equal(get(&ends->b, 1), buffer);
        assert_ptr_equal(give(&ends->b, 2), buffer);
        assert_ptr_equal(get(&ends->a, 2), buffer);
        assert_ptr_equal(give(&ends->a, 1), buffer);
    }
}

/* All buffers come into use, though what is measured, which takes no fresh one, comes in step with
 * what could take one: frames of two buffers each, every fourth of which is measured. */
static void take__uses_all_buffers(void **state)
{
    struct ends *ends = *state;

    for (uint64_t frame = 0; frame < 20ull * BR_PIPE_BUFFERS; frame++)
        for (int half = 0; half < 2; half++) {
            bool fresh = false;
            int number = br_pipe_take(&ends->a, frame % 4 == 0, &fresh);

            assert_true(number >= 0);
            memcpy(br_pipe_buffer(&ends->a, (uint32_t)number), &frame, sizeof frame);
            br_pipe_hand_over(&ends->a, (uint32_t)number);
            assert_non_null(get(&ends->b, frame));
        }
    assert_int_equal(ends->a.fresh, 0);
}

/* In one direction the writer is never left without. */
static void keep__gives_back(void **state)
{
    struct ends *ends = *state;
    uint64_t written = 0, read = 0;

    for (int round = 0; round < 1000; round++) {
        uint64_t before = written;

        while (give(&ends->a, written))
            written++;
        assert_in_range(written - before, BR_PIPE_BUFFERS / 2, 2 * BR_PIPE_BUFFERS);
        while (get(&ends->b, read))
            read++;
        assert_int_equal(read, written);
    }
}

/* Each buffer has one owner or is on its way, whatever the two ends do by turns; and when all has
 * been read that was written, both can go on. */
static void pipe__any_order(void **state)
{
    struct ends *ends = *state;
    struct br_random random;
    uint64_t written[2] = {0}, read[2] = {0};

    br_random_seed(&random, 7);
    for (int round = 0; round < 20000; round++) {
        uint64_t way = br_random_below(&random, 2), n = br_random_below(&random, 200);
        struct br_pipe *writer = way ? &ends->b : &ends->a, *reader = way ? &ends->a : &ends->b;

        if (br_random_below(&random, 2)) {
            while (n-- && give(writer, written[way]))
                written[way]++;
        } else {
            while (n-- && get(reader, read[way]))
                read[way]++;
        }
        for (uint32_t k = 0; k < 2 * BR_PIPE_BUFFERS; k++)
            assert_false(ends->a.owned[k] && ends->b.owned[k ^ BR_PIPE_BUFFERS]);
        if (round % 100)
            continue;
        while (get(&ends->b, read[0]))
            read[0]++;
        while (get(&ends->a, read[1]))
            read[1]++;
        assert_int_equal(read[0], written[0]);
        assert_int_equal(read[1], written[1]);
        assert_non_null(give(&ends->a, written[0]++));
        assert_non_null(give(&ends->b, written[1]++));
    }
}

/* What comes back and is ours already, or none at all, is not taken a second time. */
static void take__forged(void **state)
{
    struct ends *ends = *state;
    bool fresh, taken[2 * BR_PIPE_BUFFERS] = {false};
    int number;

    for (uint32_t k = 0; k < 10; k++)
        br_inbox_put_entry(ends->x.header->given, BR_PIPE_BITS + 1, k, k % 2 ? 3 : 4000);
    while ((number = br_pipe_take(&ends->a, false, &fresh)) >= 0) {
        assert_in_range(number, 0, BR_PIPE_BUFFERS - 1);
        assert_false(taken[number]);
        taken[number] = true;
    }
    assert_int_equal(number, -EAGAIN);
}

int main(void)
{
#define ENDS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ENDS(keep__is_written_next), ENDS(take__uses_all_buffers), ENDS(keep__gives_back),
        ENDS(pipe__any_order),       ENDS(take__forged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
