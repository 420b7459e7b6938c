/* SPDX-License-Identifier: BSD-3-Clause */
/* Links in bad weather: thousands of seeds; exactly once into the right place, or a typed error by
 * the deadline. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/transport/datagram/netem.h"

#define TRANSFERS     6u
#define TRANSFER      (160u << 10)
#define SLICE         (64u << 10)
#define MESSAGE_BYTES 3000u
#define BUFFERS       8u
#define PATIENCE      (2 * BR_SEC)
#define MOST_FRAMES   256u
#define FOREIGN       0xee /* what memory holds that is not ours any more */

/* One end's user. */
struct user {
    struct br_slot_table slots;
    struct br_slot *slot[TRANSFERS];
    uint32_t number[TRANSFERS];
    uint8_t *place[TRANSFERS], *source[TRANSFERS];
    bool dead[TRANSFERS];                /* the slot was put back in the middle */
    unsigned n_data_frames, data_cursor; /* frames to post */
    struct {
        uint32_t transfer, offset, length;
        unsigned sent, arrived;
    } frames[MOST_FRAMES];
    unsigned messages, posted, heard, sent_messages; /* to post, posted, delivered, SENT */
    uint8_t message[BUFFERS * 4][MESSAGE_BYTES];
    void *held[BUFFERS];
    unsigned n_held;
    bool up;
    int error;
};

struct pair {
    struct netem_net net;
    bool kills; /* slots are put back in the middle */
    struct user users[2];
};

static uint8_t pattern(unsigned user, uint32_t transfer, uint32_t at)
{
    return (uint8_t)(at * 7 + at / 251 + transfer * 31 + user * 101 + 1);
}

static void begin_user(struct pair *pair, unsigned u)
{
    struct user *user = &pair->users[u];

    assert_int_equal(br_slot_table_init(&user->slots, 16), 0);
    for (uint32_t t = 0; t < TRANSFERS; t++) {
        user->place[t] = calloc(1, TRANSFER + 64);
        user->source[t] = malloc(TRANSFER);
        assert_true(user->place[t] && user->source[t]);
        user->slot[t] = br_slot_get(&user->slots, user->place[t], TRANSFER, SLICE);
        user->number[t] = br_slot_number(&user->slots, user->slot[t]);
        for (uint32_t i = 0; i < TRANSFER; i++)
            user->source[t][i] = pattern(u, t, i);
    }
}

/* Frames of 1 to 64 granules, in any order of transfers, within slices. */
static void plan(struct pair *pair, unsigned u)
{
    struct user *user = &pair->users[u];
    struct br_random *random = &pair->net.random;
    uint32_t granule = user->slot[0]->granule_bytes, at[TRANSFERS] = {0};

    while (user->n_data_frames < MOST_FRAMES) {
        uint32_t t = (uint32_t)br_random_below(random, TRANSFERS), length;
        uint32_t left = SLICE - at[t] % SLICE;

        if (left > TRANSFER - at[t])
            left = TRANSFER - at[t];
        length = granule * (uint32_t)(1 + br_random_below(random, 64));
        length = length < left ? length : left;
        if (!length)
            break; /* this transfer is whole: enough */
        user->frames[user->n_data_frames].transfer = t;
        user->frames[user->n_data_frames].offset = at[t];
        user->frames[user->n_data_frames++].length = length;
        at[t] += length;
    }
    user->messages = (unsigned)br_random_below(random, 60);
    for (unsigned i = 0; i < BUFFERS * 4; i++)
        memset(user->message[i], (int)(i + 1), MESSAGE_BYTES);
}

static uint32_t message_length(unsigned i)
{
    return i % 3 ? i * 37 % MESSAGE_BYTES : 0;
}

/* Cookies: messages are odd. */
static void post(struct pair *pair, unsigned end)
{
    struct user *user = &pair->users[end], *peer = &pair->users[!end];
    struct br_dgram_link *link = pair->net.ends[end].link;
    uint8_t inline_[BR_FRAME_INLINE];

    while (user->posted < user->messages && user->posted < user->sent_messages + BUFFERS * 4) {
        unsigned i = user->posted;
        struct br_frame frame = {.kind = BR_FRAME_MESSAGE,
                                 .payload = user->message[i % (BUFFERS * 4)],
                                 .length = message_length(i),
                                 .inline_ = inline_,
                                 .cookie = 2 * i + 1};

        memset(inline_, (int)i, sizeof inline_);
        if (br_dgram_link_post(link, &frame, 1) != 1)
            break;
        user->posted++;
    }
    while (user->data_cursor < user->n_data_frames) {
        unsigned i = user->data_cursor, t = user->frames[i].transfer;
        struct br_frame frame = {.kind = BR_FRAME_DATA,
                                 .payload = user->source[t] + user->frames[i].offset,
                                 .length = user->frames[i].length,
                                 .slot = peer->number[t],
                                 .offset = user->frames[i].offset,
                                 .inline_ = inline_,
                                 .cookie = 2 * i + 2};

        memset(inline_, 0xaa, sizeof inline_);
        memcpy(inline_, &i, sizeof i);
        if (br_dgram_link_post(link, &frame, 1) != 1)
            break;
        user->data_cursor++;
    }
}

static void receive_message(struct pair *pair, unsigned end, const struct br_event *event)
{
    struct user *user = &pair->users[end];
    unsigned i = user->heard++;

    assert_int_equal(event->length, message_length(i));
    assert_int_equal(event->inline_[0], (uint8_t)i);
    assert_int_equal(event->inline_[BR_FRAME_INLINE - 1], (uint8_t)i);
    for (uint32_t k = 0; k < event->length; k++)
        assert_int_equal(event->payload[k], i % (BUFFERS * 4) + 1);
    user->held[user->n_held++] = event->buffer;
    /* Kept for a while, given back in another order. */
    while (user->n_held && (user->n_held == BUFFERS || br_random_below(&pair->net.random, 2)))
        br_dgram_link_release(pair->net.ends[end].link, user->held[--user->n_held]);
}

static void receive_data(struct pair *pair, unsigned end, const struct br_event *event)
{
    struct user *user = &pair->users[end], *peer = &pair->users[!end];
    unsigned i, t;

    memcpy(&i, event->inline_, sizeof i);
    assert_true(i < peer->n_data_frames && event->inline_[BR_FRAME_INLINE - 1] == 0xaa);
    t = peer->frames[i].transfer;
    assert_int_equal(peer->frames[i].arrived++, 0);
    assert_int_equal(event->slot, user->number[t]);
    assert_int_equal(event->offset, peer->frames[i].offset);
    assert_int_equal(event->length, peer->frames[i].length);
    assert_int_equal(event->stale, user->dead[t]);
    if (event->stale)
        return;
    assert_memory_equal(user->place[t] + event->offset, peer->source[t] + event->offset,
                        event->length);
    br_slot_arrive(user->slot[t], event->offset, event->length);
}

/* Now and then a slot is put back, and its memory is somebody else's. */
static void kill_slot(struct pair *pair, unsigned end)
{
    struct user *user = &pair->users[end];
    unsigned t = (unsigned)br_random_below(&pair->net.random, 50 * TRANSFERS);

    if (!pair->kills || t >= TRANSFERS || user->dead[t])
        return;
    user->dead[t] = true;
    br_slot_put(&user->slots, user->slot[t]);
    memset(user->place[t], FOREIGN, TRANSFER);
}

static void on_event(void *owner, unsigned end, const struct br_event *event)
{
    struct pair *pair = owner;
    struct user *user = &pair->users[end];

    assert_int_equal(user->error, 0);
    switch (event->kind) {
    case BR_EVENT_ACCEPTED:
    case BR_EVENT_CONNECTED:
        assert_int_equal(event->kind, end ? BR_EVENT_ACCEPTED : BR_EVENT_CONNECTED);
        user->up = true;
        br_dgram_link_authenticate(pair->net.ends[end].link);
        break;
    case BR_EVENT_SENT:
        if (event->cookie & 1)
            user->sent_messages++;
        else
            assert_int_equal(user->frames[event->cookie / 2 - 1].sent++, 0);
        if (!(event->cookie & 1))
            assert_int_equal(user->frames[event->cookie / 2 - 1].arrived,
                             1); /* sent means placed */
        break;
    case BR_EVENT_MESSAGE:
        receive_message(pair, end, event);
        break;
    case BR_EVENT_DATA:
        receive_data(pair, end, event);
        break;
    case BR_EVENT_CLOSED:
        assert_true(event->error < 0 && *br_dgram_link_message(pair->net.ends[end].link));
        user->error = event->error;
        break;
    }
    kill_slot(pair, end);
    if (user->up && !user->error)
        post(pair, end);
}

static struct pair *begin(uint64_t seed, const struct br_dgram_config *more)
{
    struct pair *pair = calloc(1, sizeof *pair);
    struct br_dgram_config config = *more;

    assert_non_null(pair);
    netem_init(&pair->net, seed);
    config.message_bytes = MESSAGE_BYTES;
    config.message_buffers = BUFFERS;
    config.patience = PATIENCE;
    netem_pair(&pair->net, &config, -1);
    for (unsigned u = 0; u < 2; u++) {
        begin_user(pair, u);
        plan(pair, u);
        pair->net.ends[u].config.slots = &pair->users[u].slots;
        pair->net.ends[u].event = on_event;
        pair->net.ends[u].owner = pair;
    }
    return pair;
}

static void end(struct pair *pair)
{
    netem_destroy(&pair->net);
    for (unsigned u = 0; u < 2; u++) {
        for (unsigned t = 0; t < TRANSFERS; t++) {
            free(pair->users[u].place[t]);
            free(pair->users[u].source[t]);
        }
        br_slot_table_destroy(&pair->users[u].slots);
    }
    free(pair);
}

static bool user_done(const struct pair *pair, unsigned u)
{
    const struct user *user = &pair->users[u];

    for (unsigned i = 0; i < user->n_data_frames; i++)
        if (!user->frames[i].sent)
            return false;
    return user->sent_messages == user->messages && pair->users[!u].heard == user->messages;
}

/* Nothing was written behind a place, or into one that was given up. */
static void expect_destinations(const struct user *user)
{
    for (unsigned t = 0; t < TRANSFERS; t++) {
        for (unsigned k = 0; k < 64; k++)
            assert_int_equal(user->place[t][TRANSFER + k], 0);
        for (unsigned k = 0; user->dead[t] && k < TRANSFER; k++)
            assert_int_equal(user->place[t][k], FOREIGN);
    }
}

static void expect_done(const struct pair *pair, uint64_t seed)
{
    for (unsigned u = 0; u < 2; u++) {
        if (!user_done(pair, u))
            fail_msg("seed %llu: end %u is not done: error %d, %u of %u messages",
                     (unsigned long long)seed, u, pair->users[u].error,
                     pair->users[u].sent_messages, pair->users[u].messages);
        for (unsigned i = 0; i < pair->users[u].n_data_frames; i++)
            assert_int_equal(pair->users[u].frames[i].arrived, 1);
        expect_destinations(&pair->users[u]);
    }
}

static void link__quiet_network(void **state)
{
    struct br_dgram_config config = {.max_packet = 8972, .paths = 1};
    struct pair *pair = begin(1, &config);
    struct br_dgram_stats stats;

    (void)state;
    netem_connect(&pair->net, 0);
    netem_run(&pair->net, 2 * BR_SEC);
    expect_done(pair, 1);
    br_dgram_link_stats(pair->net.ends[0].link, &stats);
    assert_int_equal(stats.packet_bytes, 8972);
    assert_int_equal(stats.resent_packets, 0);
    assert_int_equal(stats.lost_packets, 0);
    end(pair);
}

/* Weather of every kind, up to 20 % loss and blackouts shorter than the patience: everything
 * arrives. */
static void storm(uint64_t seed)
{
    static const uint32_t packets[] = {1080, 1472, 8972, 65507};
    struct br_random random;
    struct br_dgram_config config;
    struct pair *pair;
    struct weather w = {0};

    br_random_seed(&random, seed);
    config = (struct br_dgram_config){.max_packet = packets[br_random_below(&random, 4)],
                                      .paths = 1 + (uint32_t)br_random_below(&random, 4),
                                      .header_only = !br_random_below(&random, 3),
                                      .acks_behind = seed & 1};
    pair = begin(seed, &config);
    w.loss = br_random_below(&random, 3) ? 0.2 * br_random_unit(&random) : 0;
    w.duplicate = br_random_below(&random, 2) ? 0.1 * br_random_unit(&random) : 0;
    w.reorder = br_random_below(&random, 2) ? 0.3 * br_random_unit(&random) : 0;
    w.damage =
        !config.header_only && br_random_below(&random, 2) ? 0.05 * br_random_unit(&random) : 0;
    w.delay = 5 * BR_US + br_random_below(&random, br_random_below(&random, 2) ? BR_MS : 5 * BR_MS);
    w.jitter = br_random_below(&random, 2) ? br_random_below(&random, w.delay) : 0;
    w.mtu = br_random_below(&random, 3) ? 0 : 1480;
    if (!br_random_below(&random, 4)) {
        w.black_from = pair->net.now + br_random_below(&random, 50 * BR_MS);
        w.black_until = w.black_from + br_random_below(&random, PATIENCE / 2);
    }
    if (config.paths > 1 && !br_random_below(&random, 4))
        w.dead_path = 2;
    pair->kills = !br_random_below(&random, 3);
    pair->net.impairments = w;
    netem_connect(&pair->net, 0);
    for (unsigned step = 0; step < 40; step++) {
        netem_run(&pair->net, pair->net.now + BR_SEC);
        if (user_done(pair, 0) && user_done(pair, 1))
            break;
    }
    expect_done(pair, seed);
    assert_int_equal(pair->net.damaged_parsed, 0);
    end(pair);
}

/* The network goes for good: who waits for something hears of it in time. */
static void darkness(uint64_t seed)
{
    struct br_dgram_config config = {.max_packet = 1472, .paths = 1 + (uint32_t)(seed % 3)};
    struct pair *pair = begin(seed, &config);
    struct weather w = {
        .loss = 0.1 * br_random_unit(&pair->net.random), .delay = 50 * BR_US, .jitter = 20 * BR_US};

    w.black_from = pair->net.now + br_random_below(&pair->net.random, 10 * BR_MS);
    w.black_until = UINT64_MAX;
    pair->net.impairments = w;
    netem_connect(&pair->net, 0);
    netem_run(&pair->net, w.black_from + PATIENCE + 300 * BR_MS);
    for (unsigned u = 0; u < 2; u++) {
        const struct user *user = &pair->users[u];
        bool waits = user->posted > user->sent_messages || (!u && !user->up);

        for (unsigned i = 0; i < user->data_cursor; i++)
            waits |= !user->frames[i].sent;
        if (waits && user->error != -ETIMEDOUT)
            fail_msg("seed %llu: end %u waits, error %d", (unsigned long long)seed, u, user->error);
        expect_destinations(user);
    }
    end(pair);
}

/* BRAID_SEED=FIRST, BRAID_SEEDS=COUNT: with the first alone, only that one. */
static void for_seeds(void (*run)(uint64_t seed), uint64_t most)
{
    const char *first = getenv("BRAID_SEED"), *count = getenv("BRAID_SEEDS"),
               *sanitizer = getenv("BRAID_SANITIZE");
    uint64_t from = first ? strtoull(first, NULL, 10) : 1, n = first ? 1 : most;

    if (count)
        n = strtoull(count, NULL, 10);
    else if (!first && sanitizer && *sanitizer)
        n = most / 10;
    for (uint64_t seed = from; seed < from + n; seed++)
        run(seed);
}

static void link__storms(void **state)
{
    (void)state;
    for_seeds(storm, 2000);
}

static void link__darkness_ends_it_in_time(void **state)
{
    (void)state;
    for_seeds(darkness, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link__quiet_network),
        cmocka_unit_test(link__storms),
        cmocka_unit_test(link__darkness_ends_it_in_time),
    };

    return cmocka_run_group_tests_name("datagram/link", tests, NULL, NULL);
}
