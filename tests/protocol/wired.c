/* SPDX-License-Identifier: BSD-3-Clause */
#include "wired.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct br_caps wire_caps(bool sent_means_arrived)
{
    return (struct br_caps){
        .max_frame = 256 << 10, .max_message = 4096, .sent_means_arrived = sent_means_arrived};
}

struct br_handshake_self wired_self(const struct wired *x)
{
    return (struct br_handshake_self){
        .rank = (uint32_t)x->peer,
        .size = (uint32_t)x->w->config.size,
        .rails = (uint32_t)x->rails,
        .limits = {BR_FRAME_MAX_PAYLOAD, 4096, x->w->config.eager_bytes, x->w->config.slice_bytes},
        .nonce = "fresh enough for a test",
    };
}

static void open_as(struct wired *x, int rank, int rails, const struct br_caps *caps,
                    const struct br_bcube *cube)
{
    static const char *const names[WIRE_RAILS] = {"wire0", "wire1"};
    struct br_worker_config config = {
        .rank = rank,
        .size = cube ? (int)cube->hosts : 2,
        .seed = 1,
        .check = 77,
        .eager_bytes = 1024,
        .slice_bytes = 64 << 10,
        .peer_timeout = BR_SEC,
        .starvation = 100 * BR_MS,
        .connect_timeout = BR_SEC,
        .max_slots = 16,
        .max_transfers = 512,
    };
    struct br_rail_config rail_configs[WIRE_RAILS] = {0};

    if (cube)
        config.cube = *cube;
    memset(x, 0, sizeof *x);
    x->rank = rank;
    x->peer = 1 - rank;
    x->rails = rails;
    x->now = BR_SEC;
    wire_check(!br_worker_create(&config, &x->w), "it cannot be created");
    for (int r = 0; r < rails; r++) {
        x->wires[r].device.ops = &wire_ops;
        x->wires[r].device.caps = caps ? *caps : wire_caps(false);
        wire_check(!br_worker_open_device(x->w, &wire_ops, names[r], &x->wires[r],
                                          &rail_configs[r].device),
                   "no device");
        rail_configs[r].level = r;
    }
    wire_check(!br_worker_set_peer(x->w, x->peer, rail_configs, rails), "no peer");
}

void wired_open(struct wired *x, int rank, int rails, const struct br_caps *caps)
{
    open_as(x, rank, rails, caps, NULL);
}

static void take_done(struct wired *x)
{
    while (br_worker_done(x->w))
        x->done++;
}

static bool anything_arrives(const struct wired *x)
{
    for (int r = 0; r < x->rails; r++)
        if (!br_list_empty(&x->wires[r].events))
            return !x->w->failed;
    return false;
}

void wired_turn(struct wired *x, uint64_t ns)
{
    int n;

    x->now += ns;
    do {
        n = br_worker_poll(x->w, x->now);
        take_done(x);
        n += br_worker_pump(x->w, x->now);
        take_done(x);
    } while (n > 0 || anything_arrives(x));
}

void wired_say(struct wired *x, int rail, const struct br_message *message)
{
    wire_message(x->links[rail], message, NULL, 0);
    wired_turn(x, 0);
}

void wired_cut(struct wired *x, int rail)
{
    wire_fail(x->links[rail], ECONNRESET, "cut");
    wired_turn(x, 0);
}

void wired_fenced(struct wired *x, int rail, int on)
{
    struct br_message m = {.type = BR_MESSAGE_RAIL_FENCED,
                           .rail = {(uint32_t)rail, x->w->peers[x->peer].rails[rail].lost, {0}}};

    wired_say(x, on, &m);
}

/* The worker's last handshake message on a link goes through our half; ours goes back. */
static int answer(struct wired *x, struct wire_link *link)
{
    struct wire_frame *frame = wire_take(link, BR_MESSAGE_HANDSHAKE);
    uint8_t reply[BR_HANDSHAKE_BYTES_MAX];
    size_t bytes;
    int rc;

    if (!frame)
        return -EPROTO;
    rc = br_handshake_receive(&link->handshake, frame->payload, frame->frame.length, reply, &bytes);
    if (bytes)
        wire_handshake(link, reply, bytes);
    wired_turn(x, 0);
    return rc;
}

static struct wire_link *newest(struct wire *wire)
{
    return br_container_of(wire->links.prev, struct wire_link, node);
}

bool wired_connect(struct wired *x, int rail)
{
    struct br_handshake_self self = wired_self(x);
    uint8_t hello[BR_HANDSHAKE_BYTES_MAX];
    struct wire_link *link;
    size_t bytes;
    int rc;

    if (x->rank == 0) {
        link = wire_accept(&x->wires[rail]);
        br_handshake_init_connector(&link->handshake, &self, 0, (uint32_t)rail,
                                    x->w->peers[1].rails[rail].incarnation + 1, hello, &bytes);
        wire_handshake(link, hello, bytes);
        wired_turn(x, 0);
    } else {
        wired_turn(x, 20 * BR_MS); /* it connects by itself */
        link = newest(&x->wires[rail]);
        br_handshake_init_acceptor(&link->handshake, &self);
    }
    while ((rc = answer(x, link)) == 0)
        ;
    wired_turn(x, 0);
    if (rc != 1 || link->closed)
        return false;
    x->links[rail] = link;
    wire_forget(&x->wires[rail]);
    return true;
}

/* All rails up. */
static void set_up(struct wired *x)
{
    int rails = x->rails;

    for (int r = 0; r < rails; r++)
        wire_check(wired_connect(x, r), "the handshake failed");
    for (int r = 0; r < rails; r++) { /* as if measured, so that whole slices leave */
        struct br_rail *rail = &x->w->peers[x->peer].rails[r];

        rail->window = 256u << 10;
        rail->frame_bytes =
            rail->device->caps.max_frame < 64u << 10 ? rail->device->caps.max_frame : 64u << 10;
    }
    wire_check(br_worker_connected(x->w), "it is not connected");
}

void wired_create(struct wired *x, int rank, int rails, const struct br_caps *caps)
{
    wired_open(x, rank, rails, caps);
    set_up(x);
}

void wired_create_bcube(struct wired *x, int rank, int rails, const struct br_caps *caps)
{
    struct br_bcube cube;

    wire_check(!br_bcube_init(&cube, 2, 2), "no cube");
    open_as(x, rank, rails, caps, &cube);
    set_up(x);
}

void wired_destroy(struct wired *x)
{
    bool failed = x->w->failed;

    br_worker_destroy(x->w);
    for (int r = 0; r < x->rails && !failed; r++)
        wire_check(x->wires[r].maps == 0, "mappings were not given back");
}

int wired_set_up(void **state)
{
    const struct wired_plan *plan = *state;
    struct br_caps caps = wire_caps(plan->sent_means_arrived);
    struct wired *x = calloc(1, sizeof *x);

    if (!x)
        return -1;
    caps.needs_rkey = plan->needs_rkey;
    if (plan->up)
        wired_create(x, plan->rank, plan->rails, &caps);
    else
        wired_open(x, plan->rank, plan->rails, &caps);
    *state = x;
    return 0;
}

int wired_tear_down(void **state)
{
    wired_destroy(*state);
    free(*state);
    return 0;
}
