/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/collectives/direct_setup.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gpu/reduce.h"
#include "gpu/pointer.h"
#include "tests/fake_cuda/fake_cuda.h"

static const struct br_gpu_image image = {"image", NULL, "sm_none"};
struct br_offload *offload;
struct br_workspace *room;
static struct br_region room_region;
int rooms;

static void *take(void *context, int gpu, size_t bytes, struct br_region **region)
{
    void *memory = br_workspace_take(context, bytes);

    assert_int_equal(gpu, 1);
    rooms += memory != NULL;
    *region = &room_region;
    return memory;
}

static void put(void *context, int gpu, void *memory, size_t bytes)
{
    assert_int_equal(gpu, 1);
    rooms--;
    br_workspace_put(context, memory, bytes);
}

int direct_setup(void **state)
{
    struct br_offload_cost measured;

    if (open_gpu(state))
        return -1;
    br_gpu_look();
    fake_cuda()->peer_memory = true;
    if (br_offload_create(copier, &image, &offload) || br_offload_open(offload, 1, &measured) ||
        br_workspace_create(copier, 1, &room))
        return -1;
    br_offload_set(offload, 1, &(struct br_offload_cost){.start = INFINITY});
    room_region = (struct br_region){.base = br_workspace_memory(room),
                                     .bytes = BR_WORKSPACE_BYTES,
                                     .segment_fd = -1,
                                     .keys = {br_workspace_memory(room)},
                                     .gpu = &nics};
    scratch = (struct br_cuda_scratch){take, put, room};
    rooms = 0;
    return 0;
}

int direct_teardown(void **state)
{
    fake_cuda()->fail[0] = 0;
    assert_int_equal(rooms, 0);
    br_workspace_destroy(room);
    br_offload_destroy(offload);
    return close_gpu(state);
}
