/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A frame's way over the network: out of the sender's port, through the switch, into the receiver's
 * port, and the acknowledgement back.
 *
 * 1. The wire of a port and the output of a switch are each one number, the time when they are idle
 *    again. A packet is put on the wire in the order of the calls; at the switch, in the order of
 *    arrival.
 * 2. Acknowledgements take no room on the wires, only time; they can be lost.
 * 3. A frame has one reference for each step on the heap. A lost packet's step becomes a RESEND
 *    step.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/sim/internal.h"

static bool sim_packet_chance(struct br_sim *sim, uint32_t ppm)
{
    return ppm && br_random_below(&sim->random, 1000000) < ppm;
}

static uint64_t wire_ns(uint64_t bytes, uint64_t bits_per_second)
{
    return bytes * 8 * 1000000000ull / bits_per_second;
}

static struct br_sim *sim_of(const struct br_sim_frame *frame)
{
    return frame->connection->sim;
}

struct br_sim_frame *br_sim_frame_new(struct br_sim_connection *connection, int from, int kind)
{
    struct br_sim *sim = connection->sim;
    struct br_list *node = br_list_pop_front(&sim->free_frames);
    struct br_sim_frame *frame =
        node ? br_container_of(node, struct br_sim_frame, node) : malloc(sizeof *frame);

    if (!frame)
        return NULL;
    memset(frame, 0, sizeof *frame);
    br_list_init(&frame->node);
    br_list_init(&frame->waiting_node);
    frame->connection = connection;
    connection->references++;
    frame->from = (uint8_t)from;
    frame->kind = (uint8_t)kind;
    frame->references = 1;
    return frame;
}

void br_sim_frame_drop(struct br_sim_frame *frame)
{
    struct br_sim_connection *connection = frame->connection;
    struct br_sim *sim = sim_of(frame);

    if (--frame->references)
        return;
    br_list_remove(&frame->node);
    free(frame->copy);
    br_list_push_front(&sim->free_frames, &frame->node);
    br_sim_connection_drop(connection);
}

/* Puts a step of the frame on the heap, with a reference. Without memory the simulated network
 * cannot go on for this link. */
static void sim_packet_later(struct br_sim_frame *frame, const struct br_sim_step *step)
{
    struct br_sim_link *link = frame->connection->link[frame->from];

    if (!br_sim_heap_push(&sim_of(frame)->heap, step))
        frame->references++;
    else if (link)
        br_sim_link_fail(link, ENOMEM, "no memory for the simulator's events");
}

static void resend_later(struct br_sim_frame *frame, const struct br_sim_step *lost)
{
    struct br_sim *sim = sim_of(frame);
    struct br_sim_step step = {
        .kind = BR_SIM_RESEND, .frame = frame, .at = frame->sent_at + sim->config.retransmit_ns};

    if (lost->duplicate || frame->acked)
        return;
    if (step.at < sim->now)
        step.at = sim->now;
    sim_packet_later(frame, &step);
}

static void sim_packet_lose(struct br_sim_frame *frame, const struct br_sim_step *step,
                            const char *fact, uint64_t *counter)
{
    br_sim_trace(sim_of(frame), fact, frame);
    ++*counter;
    resend_later(frame, step);
}

void br_sim_frame_send(struct br_sim_frame *frame)
{
    struct br_sim *sim = sim_of(frame);
    struct br_sim_port *port = frame->connection->port[frame->from];
    uint64_t bytes = sizeof frame->header + frame->header.length;
    uint64_t start = port->tx_free > sim->now ? port->tx_free : sim->now;
    uint64_t front = bytes < sim->config.forward_bytes ? bytes : sim->config.forward_bytes;
    struct br_sim_step step = {.kind = BR_SIM_AT_SWITCH, .frame = frame, .since = sim->now};

    br_sim_trace(sim, "send", frame);
    sim->counters.packets++;
    frame->sent_at = port->tx_free = start + wire_ns(bytes, port->bits_per_second);
    step.tx_end = frame->sent_at;
    step.at = start + wire_ns(front, port->bits_per_second) + port->latency;
    sim_packet_later(frame, &step);
    if (sim_packet_chance(sim, sim->config.duplicate_ppm)) {
        step.duplicate = true;
        step.at += br_random_below(&sim->random, sim->config.reorder_ns + 1);
        step.tx_end = step.at;
        sim_packet_later(frame, &step);
    }
    if (frame->early && !frame->tries) {
        step = (struct br_sim_step){.kind = BR_SIM_LEFT, .frame = frame, .at = frame->sent_at};
        sim_packet_later(frame, &step);
    }
}

static void at_switch(struct br_sim_frame *frame, const struct br_sim_step *step)
{
    struct br_sim *sim = sim_of(frame);
    struct br_sim_port *in = frame->connection->port[frame->from],
                       *out = frame->connection->port[!frame->from];
    uint64_t bytes = sizeof frame->header + frame->header.length;
    uint64_t front = bytes < sim->config.forward_bytes ? bytes : sim->config.forward_bytes;
    uint64_t queued = out->rx_free > sim->now ? out->rx_free - sim->now : 0;
    uint64_t end, last_in = step->tx_end + in->latency + wire_ns(front, out->bits_per_second);
    struct br_sim_step next = *step;

    if (br_sim_port_broken(in, step->since) || br_sim_path_broken(sim, in, out, step->since) ||
        sim_packet_chance(sim, sim->config.loss_ppm)) {
        sim_packet_lose(frame, step, "lost", &sim->counters.lost);
        return;
    }
    if (sim->config.queue_bytes &&
        queued > wire_ns(sim->config.queue_bytes, out->bits_per_second)) {
        sim_packet_lose(frame, step, "overflow", &sim->counters.overflowed);
        return;
    }
    end = sim->now + queued + wire_ns(bytes, out->bits_per_second);
    out->rx_free = end > last_in ? end : last_in; /* its tail may still be coming in */
    next.kind = BR_SIM_ARRIVE;
    next.at = out->rx_free + out->latency;
    if (sim_packet_chance(sim, sim->config.reorder_ppm))
        next.at += br_random_below(&sim->random, sim->config.reorder_ns + 1);
    sim_packet_later(frame, &next);
}

void br_sim_frame_answer(struct br_sim_frame *frame, enum br_sim_verdict verdict)
{
    struct br_sim *sim = sim_of(frame);
    struct br_sim_step step = {
        .kind = BR_SIM_ACKED, .frame = frame, .since = sim->now, .verdict = (uint8_t)verdict};

    step.at = sim->now + frame->connection->port[0]->latency + frame->connection->port[1]->latency;
    sim_packet_later(frame, &step);
}

static void sim_packet_arrive(struct br_sim_frame *frame, const struct br_sim_step *step)
{
    struct br_sim *sim = sim_of(frame);
    struct br_sim_connection *connection = frame->connection;
    struct br_sim_port *in = connection->port[frame->from], *out = connection->port[!frame->from];
    struct br_sim_link *link;

    if (br_sim_port_broken(out, step->since) || br_sim_path_broken(sim, in, out, step->since) ||
        out->host->silent) {
        sim_packet_lose(frame, step, "lost", &sim->counters.lost);
        return;
    }
    if (sim_packet_chance(sim, sim->config.corrupt_ppm)) {
        sim_packet_lose(frame, step, "corrupt", &sim->counters.corrupt);
        return;
    }
    br_sim_trace(sim, "arrive", frame);
    if (frame->kind == BR_SIM_CONNECT) {
        br_sim_frame_answer(frame, br_sim_link_accept(frame));
        return;
    }
    link = connection->link[!frame->from];
    if (frame->kind == BR_SIM_CLOSE) {
        if (link && !frame->delivered)
            br_sim_link_fail(link, ECONNRESET, "closed by the peer");
        frame->delivered = true;
        br_sim_frame_answer(frame, BR_SIM_OK);
        return;
    }
    if (frame->delivered || frame->waits)
        sim->counters.duplicates++;
    if (frame->delivered) {
        if (!frame->mapped)
            br_sim_frame_answer(frame, BR_SIM_OK);
    } else if (!link || link->state == BR_SIM_FAILED) {
        sim->counters.late++;
        br_sim_frame_answer(frame, BR_SIM_REFUSED);
    } else if (!frame->waits) {
        br_sim_receive(link, frame);
    }
}

static void sim_packet_sent(struct br_sim_link *link, struct br_sim_frame *frame)
{
    struct br_sim_note *note = frame->cookie ? br_sim_link_note(link, BR_EVENT_SENT) : NULL;

    if (note)
        note->event.cookie = frame->cookie;
}

static void sim_packet_acked(struct br_sim_frame *frame, const struct br_sim_step *step)
{
    struct br_sim *sim = sim_of(frame);
    struct br_sim_connection *connection = frame->connection;
    struct br_sim_link *link = connection->link[frame->from];
    const struct br_sim_port *from = connection->port[frame->from];

    if (frame->acked)
        return;
    if (br_sim_port_broken(from, step->since) ||
        br_sim_path_broken(sim, from, connection->port[!frame->from], step->since) ||
        from->host->silent || sim_packet_chance(sim, sim->config.loss_ppm)) {
        sim_packet_lose(frame, step, "ack lost", &sim->counters.lost);
        return;
    }
    br_sim_trace(sim, step->verdict == BR_SIM_OK ? "acked" : "refused", frame);
    frame->acked = true;
    if (!link || frame->kind == BR_SIM_CLOSE)
        return;
    if (frame->kind == BR_SIM_CONNECT) {
        if (step->verdict == BR_SIM_OK)
            br_sim_link_open(link, BR_EVENT_CONNECTED);
        else
            br_sim_link_fail(link, ECONNREFUSED,
                             "refused: nobody accepts links at that address, or it has too many");
        return;
    }
    if (link->n_flying-- == sim->config.tx_depth)
        br_sim_link_ready(link);
    br_list_remove(&frame->node);
    if (step->verdict == BR_SIM_REFUSED)
        br_sim_link_fail(link, ECONNRESET, "closed by the peer");
    else if (!frame->early)
        sim_packet_sent(link, frame);
    br_sim_frame_drop(frame);
}

static void sim_packet_resend(struct br_sim_frame *frame)
{
    struct br_sim *sim = sim_of(frame);
    struct br_sim_link *link = frame->connection->link[frame->from];
    bool alive = !frame->connection->port[frame->from]->host->silent;

    if (frame->acked || !alive)
        return;
    if (frame->kind != BR_SIM_CLOSE && (!link || link->state == BR_SIM_FAILED))
        return; /* the link is gone and its frames with it */
    if (++frame->tries <= sim->config.retry_limit) {
        sim->counters.resent++;
        br_sim_frame_send(frame);
    } else if (link) {
        sim->counters.failed_links++;
        br_sim_link_fail(link, ETIMEDOUT, "no answer to %u tries", frame->tries);
    }
}

/* Runs one step; its reference to the frame ends here. */
void br_sim_run_step(struct br_sim *sim, const struct br_sim_step *step)
{
    struct br_sim_frame *frame = step->frame;
    struct br_sim_link *link;

    switch ((enum br_sim_step_kind)step->kind) {
    case BR_SIM_FAULT:
        br_sim_run_fault(sim, &sim->faults[step->fault]);
        return;
    case BR_SIM_AT_SWITCH:
        at_switch(frame, step);
        break;
    case BR_SIM_ARRIVE:
        sim_packet_arrive(frame, step);
        break;
    case BR_SIM_ACKED:
        sim_packet_acked(frame, step);
        break;
    case BR_SIM_RESEND:
        sim_packet_resend(frame);
        break;
    case BR_SIM_LEFT:
        link = frame->connection->link[frame->from];
        if (link)
            sim_packet_sent(link, frame);
        break;
    }
    br_sim_frame_drop(frame);
}
