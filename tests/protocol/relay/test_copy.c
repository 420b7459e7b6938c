/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of GPUs under frames that go by other hosts (doc/design/relaying.md, section 10): a
 * neighbour's rail is lost in the middle of a transfer, in the simulator, whose devices move such
 * memory as any other. What they do not move the hook does. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/protocol/cluster.h"
#include "protocol/relay/relay.h"
#include "tests/says.h"

#define BYTES (4u << 20)

static struct br_region_gpu nics = {.dmabuf = -1, .devices = 3};

/* One end of the transfer. */
static struct end {
    uint8_t *memory;
    struct br_region region;
    struct br_transfer transfer;
} ends[2];

static struct {
    uint64_t from, to; /* bytes */
    int fails_to;      /* 1: copies to the GPU fail; 0: those from it; -1: none */
} copied;

/* As br_worker_config has it. */
static int region_copy(void *context, bool to_gpu, void *to, const void *from, uint32_t bytes)
{
    assert_ptr_equal(context, &copied);
    if (copied.fails_to == to_gpu)
        return br_error(EIO, "a copy of %u bytes is refused", bytes);
    memcpy(to, from, bytes);
    *(to_gpu ? &copied.to : &copied.from) += bytes;
    return 0;
}

static struct cluster c;

static int create(void **state)
{
    static const struct br_worker_config worker = {.eager_bytes = 4096,
                                                   .slice_bytes = 65536,
                                                   .peer_timeout = BR_SEC,
                                                   .starvation = 100 * BR_MS,
                                                   .connect_timeout = BR_SEC,
                                                   .max_slots = 256,
                                                   .max_transfers = 4096,
                                                   .region_copy = region_copy,
                                                   .region_context = &copied};

    (void)state;
    cluster_create_bcube(&c, 3, 2, &(struct br_sim_config){.seed = 1}, &worker);
    copied.from = copied.to = 0;
    copied.fails_to = -1;
    for (int i = 0; i < 2; i++) {
        ends[i].memory = malloc(BYTES);
        assert_non_null(ends[i].memory);
        ends[i].region = (struct br_region){.base = ends[i].memory,
                                            .bytes = BYTES,
                                            .segment_fd = -1,
                                            .keys = {ends[i].memory},
                                            .gpu = &nics};
    }
    return 0;
}

static int destroy(void **state)
{
    (void)state;
    cluster_destroy(&c);
    for (int i = 0; i < 2; i++)
        free(ends[i].memory);
    return 0;
}

/* From rank 0 to its neighbour 1, whose rail is lost meanwhile. on_gpu: a bit for each end. */
static void post(unsigned on_gpu)
{
    struct br_sim_fault fault = {
        .kind = BR_SIM_PORT_DOWN, .host = 1, .port = 0, .at = br_sim_now(c.sim) + BR_MS / 2};

    assert_int_equal(br_sim_add_fault(c.sim, &fault), 0);
    for (uint32_t at = 0; at < BYTES; at++)
        ends[0].memory[at] = (uint8_t)(at * 7 + (at >> 11));
    memset(ends[1].memory, 0, BYTES);
    for (int i = 0; i < 2; i++)
        ends[i].transfer = (struct br_transfer){.tag = 5,
                                                .peer = !i,
                                                .memory = ends[i].memory,
                                                .length = BYTES,
                                                .region = on_gpu >> i & 1 ? &ends[i].region : NULL};
    assert_int_equal(br_transfer_receive(c.workers[1], &ends[1].transfer), 0);
    assert_int_equal(br_transfer_send(c.workers[0], &ends[0].transfer), 0);
}

/* Placed by frames that went by other hosts. */
static uint64_t relayed(int rank, bool tx)
{
    const struct br_peer *peer = &c.workers[rank]->peers[!rank];
    uint64_t bytes = 0;

    for (int i = peer->n_rails - peer->n_alternates; i < peer->n_rails; i++)
        bytes += tx ? peer->rails[i].total_tx : peer->rails[i].total_rx;
    return bytes;
}

static void relay__copies_what_devices_do_not_move(void **state)
{
    (void)state;
    for (unsigned on_gpu = 0; on_gpu < 4; on_gpu++) {
        if (on_gpu) {
            destroy(NULL);
            create(NULL);
        }
        post(on_gpu);
        cluster_run(&c, 2, br_sim_now(c.sim) + 20 * BR_SEC);
        assert_int_equal(ends[0].transfer.state, BR_TRANSFER_ENDED);
        assert_int_equal(ends[1].transfer.state, BR_TRANSFER_ENDED);
        assert_memory_equal(ends[0].memory, ends[1].memory, BYTES);
        assert_true(relayed(0, true) > BYTES / 4);
        assert_int_equal(copied.from, on_gpu & 1 ? relayed(0, true) : 0);
        if (on_gpu & 2) /* not what comes a second time */
            assert_in_range(copied.to, BYTES - c.workers[1]->peers[0].rails[0].total_rx,
                            relayed(1, false));
        else
            assert_int_equal(copied.to, 0);
    }
}

static void refused(int fails_to, struct br_worker *w)
{
    copied.fails_to = fails_to;
    post(3);
    while (!w->failed && br_sim_now(c.sim) < 20 * BR_SEC)
        assert_true(cluster_step(&c));
    assert_int_equal(w->failed, -EIO);
    assert_says(w->message, "refused");
}

static void relay__a_copy_is_refused(void **state)
{
    (void)state;
    refused(0, c.workers[0]);
    assert_int_equal(copied.from + copied.to, 0);
}

static void relay__a_copy_at_the_other_end_is_refused(void **state)
{
    (void)state;
    refused(1, c.workers[1]);
    assert_true(copied.from > 0);
}

/* A neighbour's memory may be given to NICs while its rail is up, another one's never. */
static void goes_by__a_rail_that_is_up(void **state)
{
    struct br_worker *w = c.workers[0];

    (void)state;
    assert_true(br_worker_uses_only(w, 1, 1));
    assert_false(br_worker_uses_only(w, 1, 2));
    assert_true(br_worker_uses_only(w, 3, 2));
    assert_false(br_worker_uses_only(w, 4, 3));
    assert_false(br_worker_uses_only(w, 0, 3));
    post(3);
    cluster_run(&c, 2, br_sim_now(c.sim) + 20 * BR_SEC);
    assert_false(br_worker_uses_only(w, 1, 3));
    w->config.region_copy = NULL;
    assert_false(br_worker_uses_only(w, 3, 2));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)
    const struct CMUnitTest tests[] = {
        TEST(relay__copies_what_devices_do_not_move),
        TEST(relay__a_copy_is_refused),
        TEST(relay__a_copy_at_the_other_end_is_refused),
        TEST(goes_by__a_rail_that_is_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
