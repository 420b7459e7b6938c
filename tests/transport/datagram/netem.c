/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/transport/datagram/netem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

static void must(bool ok)
{
    if (!ok)
        abort();
}

struct netem_flight {
    uint64_t time, order;
    unsigned to;
    bool marked, damaged;
    uint32_t bytes;
    uint8_t *data;
};

static bool before(const struct netem_flight *a, const struct netem_flight *b)
{
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static void swap(struct netem_net *net, unsigned a, unsigned b)
{
    struct netem_flight flight = net->flights[a];

    net->flights[a] = net->flights[b];
    net->flights[b] = flight;
}

static void push(struct netem_net *net, struct netem_flight flight)
{
    unsigned i = net->n_flights;

    if (net->n_flights == net->capacity) {
        net->capacity = net->capacity ? 2 * net->capacity : 256;
        net->flights = realloc(net->flights, net->capacity * sizeof *net->flights);
        must(net->flights);
    }
    flight.order = net->order++;
    net->flights[net->n_flights++] = flight;
    for (; i && before(&net->flights[i], &net->flights[(i - 1) / 2]); i = (i - 1) / 2)
        swap(net, i, (i - 1) / 2);
}

static struct netem_flight pop(struct netem_net *net)
{
    struct netem_flight top = net->flights[0];
    unsigned i = 0;

    net->flights[0] = net->flights[--net->n_flights];
    for (;;) {
        unsigned least = i;

        for (unsigned child = 2 * i + 1; child <= 2 * i + 2; child++)
            if (child < net->n_flights && before(&net->flights[child], &net->flights[least]))
                least = child;
        if (least == i)
            return top;
        swap(net, i, least);
        i = least;
    }
}

void netem_init(struct netem_net *net, uint64_t seed)
{
    memset(net, 0, sizeof *net);
    br_random_seed(&net->random, seed);
    net->now = BR_SEC;
    net->impairments.delay = 20 * BR_US;
}

void netem_memory_init(struct netem_memory *memory, uint32_t slots, size_t bytes)
{
    assert_int_equal(br_slot_table_init(&memory->slots, slots), 0);
    memory->place = calloc(1, bytes);
    memory->source = calloc(1, bytes);
    assert_true(memory->place && memory->source);
}

void netem_memory_destroy(struct netem_memory *memory)
{
    br_slot_table_destroy(&memory->slots);
    free(memory->place);
    free(memory->source);
}

void netem_destroy(struct netem_net *net)
{
    for (unsigned i = 0; i < net->n_ends; i++)
        br_dgram_link_destroy(net->ends[i].link);
    while (net->n_flights)
        free(pop(net).data);
    free(net->flights);
}

static bool chance(struct netem_net *net, double share)
{
    return share > 0 && br_random_unit(&net->random) < share;
}

/* Through the port's queue. false: no room. */
static bool pass(struct netem_net *net, int index, uint32_t bytes, uint64_t *out, bool *marked)
{
    struct netem_port *port = &net->ports[index < 0 ? 0 : index];
    uint64_t start = port->free_at > net->now ? port->free_at : net->now, waiting;

    *out = net->now;
    if (index < 0)
        return true;
    waiting = (start - net->now) * port->bits_per_second / 8 / BR_SEC;
    if (waiting + bytes > port->buffer) {
        port->dropped++;
        return false;
    }
    *marked = port->mark_above && waiting > port->mark_above;
    port->free_at = start + (uint64_t)(bytes + 66) * 8 * BR_SEC / port->bits_per_second;
    port->carried += bytes;
    *out = port->free_at;
    return true;
}

/* Is it one that asks for an acknowledgement, and to be lost for that? */
static bool lose_asking(struct netem_net *net, const struct br_dgram_packet *packet)
{
    struct br_dgram_data data;

    memcpy(&data, packet->head, sizeof data);
    if (!net->impairments.lose_asking ||
        (data.header.kind != BR_DGRAM_PING &&
         (data.header.kind != BR_DGRAM_DATA || !(data.flags & BR_DGRAM_ASKS))))
        return false;
    net->impairments.lose_asking--;
    return true;
}

static void fly(struct netem_net *net, unsigned from, const struct br_dgram_packet *packet)
{
    struct netem_end *end = &net->ends[from];
    struct netem_flight flight = {.to = end->peer,
                                  .bytes = packet->head_bytes + packet->payload_bytes};
    const struct weather *w = &net->impairments;

    flight.data = malloc(flight.bytes);
    must(flight.data);
    memcpy(flight.data, packet->head, packet->head_bytes);
    if (packet->payload_bytes)
        memcpy(flight.data + packet->head_bytes, packet->payload, packet->payload_bytes);
    if (chance(net, w->damage)) {
        flight.data[br_random_below(&net->random, flight.bytes)] ^=
            (uint8_t)(1 + br_random_below(&net->random, 255));
        flight.damaged = true;
    }
    if ((w->mtu && flight.bytes > w->mtu) || chance(net, w->loss) ||
        packet->path + 1u == w->dead_path || lose_asking(net, packet) ||
        (net->now >= w->black_from && net->now < w->black_until) ||
        !pass(net, end->port, flight.bytes, &flight.time, &flight.marked)) {
        free(flight.data);
        return;
    }
    flight.time += w->delay + (w->jitter ? br_random_below(&net->random, w->jitter) : 0);
    if (chance(net, w->reorder))
        flight.time += br_random_below(&net->random, 4 * w->delay + 1);
    else if (flight.time < end->last_arrival)
        flight.time = end->last_arrival;
    else
        end->last_arrival = flight.time;
    push(net, flight);
    if (chance(net, w->duplicate)) {
        const uint8_t *first = flight.data;

        flight.data = malloc(flight.bytes);
        must(flight.data != NULL);
        memcpy(flight.data, first, flight.bytes);
        flight.time += br_random_below(&net->random, 4 * w->delay + 1);
        push(net, flight);
    }
}

static void send_control(struct netem_net *net, unsigned from, const struct br_dgram_open *open)
{
    struct br_dgram_packet packet = {.head_bytes = sizeof *open};

    memcpy(packet.head, open, sizeof *open);
    fly(net, from, &packet);
}

static void events(struct netem_net *net, unsigned index)
{
    struct netem_end *end = &net->ends[index];
    struct br_event event = {.link = NULL};

    while (end->link && br_dgram_link_event(end->link, &event))
        end->event(end->owner, index, &event);
}

void netem_kick(struct netem_net *net, unsigned index)
{
    struct netem_end *end = &net->ends[index];
    struct br_dgram_packet packet;
    bool last = false;

    events(net, index);
    while (end->link && br_dgram_link_next(end->link, net->now, &packet)) {
        must(!last || packet.head[offsetof(struct br_dgram_header, kind)] != BR_DGRAM_DATA);
        last |= packet.last;
        fly(net, index, &packet);
    }
    events(net, index); /* a timeout is found by next() */
}

static void arrive(struct netem_net *net, const struct netem_flight *flight)
{
    struct netem_end *end = &net->ends[flight->to];
    struct br_dgram_view view;
    uint64_t link;

    if (br_dgram_parse(flight->data, flight->bytes, &view))
        return;
    net->damaged_parsed += flight->damaged;
    link = view.header.link;
    if (view.kind == BR_DGRAM_OPEN) {
        if (!end->link && end->listens)
            must(!br_dgram_link_accept(&end->config, &view, net->now, &end->link));
        else if (end->link)
            br_dgram_link_input(end->link, &view, flight->marked, net->now);
    } else if (end->link && (link == end->config.id ||
                             (!link && view.open.from == br_dgram_link_peer(end->link)))) {
        br_dgram_link_input(end->link, &view, flight->marked, net->now);
    } else if (view.kind != BR_DGRAM_CLOSE) {
        struct br_dgram_open refusal;

        br_dgram_refuse(&view, &refusal);
        send_control(net, flight->to, &refusal);
    }
    netem_kick(net, flight->to);
}

void netem_run(struct netem_net *net, uint64_t until)
{
    for (;;) {
        uint64_t next = net->n_flights ? net->flights[0].time : BR_DGRAM_NEVER;
        unsigned who = NETEM_ENDS;

        for (unsigned i = 0; i < net->n_ends; i++) {
            uint64_t timer =
                net->ends[i].link ? br_dgram_link_timer(net->ends[i].link) : BR_DGRAM_NEVER;

            if (timer < next) {
                next = timer;
                who = i;
            }
        }
        if (next >= until)
            break;
        if (next > net->now)
            net->now = next;
        if (who < NETEM_ENDS) {
            netem_kick(net, who);
        } else {
            struct netem_flight flight = pop(net);

            arrive(net, &flight);
            free(flight.data);
        }
    }
    net->now = until;
}

unsigned netem_pair(struct netem_net *net, const struct br_dgram_config *config, int port)
{
    unsigned first = net->n_ends;

    net->n_ends += 2;
    must(net->n_ends <= NETEM_ENDS);
    for (unsigned i = 0; i < 2; i++) {
        struct netem_end *end = &net->ends[first + i];

        end->config = *config;
        end->config.id = br_random_next(&net->random) | 1;
        end->peer = first + 1 - i;
        end->port = i ? -1 : port;
        end->listens = i;
    }
    return first;
}

void netem_connect(struct netem_net *net, unsigned end)
{
    must(!br_dgram_link_connect(&net->ends[end].config, net->now, &net->ends[end].link));
    netem_kick(net, end);
}

void netem_close(struct netem_net *net, unsigned index)
{
    struct netem_end *end = &net->ends[index];
    struct br_dgram_packet packet = {.head_bytes = 0};

    if (br_dgram_link_close(end->link, &packet))
        fly(net, index, &packet);
    br_dgram_link_destroy(end->link);
    end->link = NULL;
    end->listens = false;
}
