/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of GPU memory: addresses at which the CPU faults, and the fake devices find bytes
 * (fake_memory). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "rig.h"

#define COOKIE 77u

static uint8_t *gpu; /* both ends' memory: [0, RIG_PLACE) is sent, what follows is received into */
static uint8_t bytes[2 * RIG_PLACE];
static struct br_region_gpu by_dmabuf = {.dmabuf = 0}; /* any descriptor that is open */
static struct br_region from, to;

static void *find_bytes(uint64_t address)
{
    return address - (uintptr_t)gpu < sizeof bytes ? bytes + (address - (uintptr_t)gpu)
                                                   : (void *)(uintptr_t)address;
}

static int setup(void **state)
{
    rig_setup(state);
    gpu = mmap(NULL, sizeof bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(gpu != MAP_FAILED);
    fake_memory = find_bytes;
    for (size_t i = 0; i < RIG_PLACE; i++)
        bytes[i] = (uint8_t)(i * 13 + i / 251);
    memset(bytes + RIG_PLACE, 0, RIG_PLACE);
    return 0;
}

static int teardown(void **state)
{
    munmap(gpu, sizeof bytes);
    return rig_teardown(state);
}

static void add(struct rig_end *end, struct br_region *region, uint8_t *memory)
{
    *region =
        (struct br_region){.base = memory, .bytes = RIG_PLACE, .segment_fd = -1, .gpu = &by_dmabuf};
    assert_int_equal(rig_ops->region_register(&end->device->base, region), 0);
}

/* On b, of GPU memory. */
static struct br_slot *gpu_slot(struct rig *rig, uint32_t length)
{
    struct br_slot *slot = br_slot_get(&rig->b.slots, gpu + RIG_PLACE, length, RIG_PLACE);

    assert_non_null(slot);
    slot->region = &to;
    assert_int_equal(rig_ops->rkey(&rig->b.device->base, slot, slot->rkeys[0]), 0);
    return slot;
}

static int post(struct rig *rig, const struct br_slot *slot, uint32_t offset, uint32_t length)
{
    struct br_frame frame = {.kind = BR_FRAME_DATA,
                             .payload = gpu + offset,
                             .length = length,
                             .slot = br_slot_number(&rig->b.slots, slot),
                             .offset = offset,
                             .rkey = slot->rkeys[0],
                             .region = &from,
                             .cookie = COOKIE};

    return rig_ops->post(rig->a.link, &frame, 1);
}

static void put(struct rig *rig, struct br_slot *slot)
{
    rig_ops->rkey(&rig->b.device->base, slot, NULL);
    br_slot_put(&rig->b.slots, slot);
}

/* Of all lengths, also those that would go inline. */
static void post__gpu_to_gpu(void **state)
{
    static const uint32_t lengths[] = {1, 8, 100, 4096, RIG_PLACE};
    struct rig *rig = *state;
    uint64_t sum = 0;

    add(&rig->a, &from, gpu);
    add(&rig->b, &to, gpu + RIG_PLACE);
    assert_int_equal(fake_calls("reg_dmabuf_mr"), 2);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct br_slot *slot = gpu_slot(rig, lengths[i]);

        assert_int_equal(post(rig, slot, 0, lengths[i]), 1);
        rig_settle(rig);
        assert_int_equal(rig_take(&rig->b, BR_EVENT_DATA)->length, lengths[i]);
        assert_int_equal(rig_take(&rig->a, BR_EVENT_SENT)->cookie, COOKIE);
        assert_memory_equal(bytes + RIG_PLACE, bytes, lengths[i]);
        sum += lengths[i];
        assert_int_equal(rig->a.device->base.counters.tx_gpu_bytes, sum);
        assert_int_equal(rig->b.device->base.counters.rx_gpu_bytes, sum);
        put(rig, slot);
    }
    assert_int_equal(rig->a.device->base.counters.tx_copied_bytes, 0);
    assert_int_equal(rig->b.device->base.counters.rx_copied_bytes, 0);
    rig_ops->region_release(&rig->a.device->base, &from);
    rig_ops->region_release(&rig->b.device->base, &to);
}

/* The receiver has no room that a NIC could write to, so frames go in pieces (rkey.h note 5): the
 * NIC gathers them. SENT comes when it has read the last one, not before. */
static void post__gpu_in_pieces(void **state)
{
    struct rig *rig = *state;
    struct br_slot *slot;

    add(&rig->a, &from, gpu);
    fake_fail_always("reg_mr", ENOMEM);
    slot = rig_slot(rig, false);
    fake_devices[0].hold = true;
    assert_int_equal(post(rig, slot, 0, RIG_PLACE), 1);
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_SENT), 0);
    fake_devices[0].hold = false;
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->b, BR_EVENT_DATA), 1);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_SENT)->cookie, COOKIE);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_SENT), 0);
    assert_memory_equal(rig->to, bytes, RIG_PLACE);
    assert_int_equal(rig->a.device->base.counters.tx_gpu_bytes, RIG_PLACE);
    assert_int_equal(rig->a.device->base.counters.tx_copied_bytes, 0);
    assert_int_equal(rig->a.device->copies.n_free, rig->a.device->copies.count);
    rig_slot_put(rig, slot);
    rig_ops->region_release(&rig->a.device->base, &from);
}

static void post__gpu_piece_fails(void **state)
{
    struct rig *rig = *state;
    struct br_slot *slot;

    add(&rig->a, &from, gpu);
    fake_fail_always("reg_mr", ENOMEM);
    slot = rig_slot(rig, false);
    fake_fail("post_send", 1, EIO);
    assert_int_equal(post(rig, slot, 0, RIG_PLACE), -EIO);
    fake_heal();
    assert_int_equal(rig->a.device->copies.n_free, rig->a.device->copies.count);
    rig_settle(rig);
    rig_slot_put(rig, slot);
    rig_ops->region_release(&rig->a.device->base, &from);
}

/* Pieces are the CPU's to copy, which cannot: a peer that sends them loses the link, and the
 * process stays. */
static void poll__pieces_for_a_gpu(void **state)
{
    struct rig *rig = *state;
    struct br_slot *slot;
    struct br_frame frame;

    add(&rig->b, &to, gpu + RIG_PLACE);
    slot = gpu_slot(rig, 4096);
    frame = (struct br_frame){.kind = BR_FRAME_DATA,
                              .payload = rig->from,
                              .length = 4096,
                              /* and no token: in pieces */
                              .slot = br_slot_number(&rig->b.slots, slot)};
    assert_int_equal(rig_ops->post(rig->a.link, &frame, 1), 1);
    rig_settle(rig);
    assert_int_equal(rig_take(&rig->b, BR_EVENT_CLOSED)->error, -EPROTO);
    assert_non_null(strstr(rig->b.link->message, "GPU"));
    assert_int_equal(rig->b.device->base.counters.bad_frames, 1);
    put(rig, slot);
    rig_ops->region_release(&rig->b.device->base, &to);
}

/* Mistakes of the caller, which has keys only where the device has reached the GPU. */
static void post__gpu_without_keys(void **state)
{
    struct rig *rig = *state;
    struct br_slot *slot = br_slot_get(&rig->b.slots, gpu, RIG_PLACE, RIG_PLACE);
    uint8_t token[BR_RKEY_BYTES];

    from = (struct br_region){.base = gpu, .bytes = RIG_PLACE, .segment_fd = -1, .gpu = &by_dmabuf};
    slot->region = &from;
    assert_int_equal(rig_ops->rkey(&rig->b.device->base, slot, token), -EFAULT);
    br_slot_put(&rig->b.slots, slot);
    slot = rig_slot(rig, false);
    assert_int_equal(post(rig, slot, 0, RIG_PLACE), -EFAULT);
    rig_settle(rig);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, -EFAULT);
    rig_slot_put(rig, slot);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(post__gpu_to_gpu, setup, teardown),
        cmocka_unit_test_setup_teardown(post__gpu_in_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(post__gpu_piece_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(poll__pieces_for_a_gpu, setup, teardown),
        cmocka_unit_test_setup_teardown(post__gpu_without_keys, setup, teardown),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
