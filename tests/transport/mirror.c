/* SPDX-License-Identifier: BSD-3-Clause */
#include "mirror.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tests/fake_cuda/fake_cuda.h"

#define EVENTS 16

enum { CONNECTOR, ACCEPTOR, STRANGER };

struct mirror mirror;
static struct br_device device;
static struct br_event events[EVENTS];
static int n_events;
static uint8_t inline_[2][BR_FRAME_INLINE]; /* of the greeting; of the stranger */

void mirror_reset(void)
{
    mirror = (struct mirror){.moves = true, .dmabuf = -2, .max_frame = 1 << 20};
    n_events = 0;
}

static struct br_event *add(enum br_event_kind kind, int link)
{
    events[n_events] = (struct br_event){.kind = kind, .link = &mirror.links[link]};
    return &events[n_events++];
}

static int device_open(const struct br_device_config *config, struct br_device **out)
{
    device = (struct br_device){.ops = &mirror_ops,
                                .config = config,
                                .caps = {.max_frame = mirror.max_frame, .max_message = 1024}};
    snprintf(device.name, sizeof device.name, "%s", config->name);
    mirror.config = *config;
    mirror.opened++;
    *out = &device;
    return 0;
}

static void device_close(struct br_device *base)
{
    (void)base;
    mirror.opened--;
}

static int region_register(struct br_device *base, struct br_region *region)
{
    (void)base;
    if (mirror.refuses)
        return br_error(mirror.refuses, "no way");
    mirror.registered++;
    if (region->gpu) {
        mirror.dmabuf = region->gpu->dmabuf;
        region->gpu->no_dmabuf = mirror.no_dmabuf;
    }
    return 0;
}

static void region_release(struct br_device *base, struct br_region *region)
{
    (void)base, (void)region;
    mirror.registered--;
}

static int link_connect(struct br_device *base, const struct br_address *address,
                        struct br_link **out)
{
    (void)address;
    for (int i = 0; i < 3; i++)
        mirror.links[i] = (struct br_link){.device = base};
    mirror.links_open = 2;
    if (mirror.stranger) {
        mirror.links_open++;
        add(BR_EVENT_ACCEPTED, STRANGER);
        add(BR_EVENT_MESSAGE, STRANGER)->inline_ = inline_[1];
        add(BR_EVENT_CLOSED, STRANGER)->error = -ECONNRESET;
    }
    add(BR_EVENT_CONNECTED, CONNECTOR);
    add(BR_EVENT_ACCEPTED, ACCEPTOR);
    *out = &mirror.links[CONNECTOR];
    return 0;
}

static void link_close(struct br_link *link)
{
    (void)link;
    mirror.links_open--;
}

/* As a NIC: it finds memory of GPUs where the CPU does not. */
static void copy(const struct br_frame *frame)
{
    const struct br_slot *slot = br_slot_lookup(device.config->slots, frame->slot);
    uint8_t *to = fake_cuda_bytes((uintptr_t)slot->base + frame->offset);

    if (mirror.moves)
        memcpy(to, fake_cuda_bytes((uintptr_t)frame->payload), frame->length);
    if (mirror.spoils)
        to[mirror.spoils - 1] ^= 1;
}

static int post(struct br_link *link, const struct br_frame *frames, int n)
{
    (void)link, (void)n;
    if (frames->kind == BR_FRAME_DATA && mirror.closes) {
        snprintf(mirror.links[CONNECTOR].message, sizeof mirror.links[CONNECTOR].message,
                 "the cable is cut");
        add(BR_EVENT_CLOSED, CONNECTOR)->error = -mirror.closes;
        return -mirror.closes;
    }
    if (frames->kind == BR_FRAME_DATA && mirror.takes_not)
        return br_error(mirror.takes_not, "not this frame");
    add(BR_EVENT_SENT, CONNECTOR)->cookie = frames->cookie;
    if (frames->kind == BR_FRAME_MESSAGE) {
        memcpy(inline_[0], frames->inline_, BR_FRAME_INLINE);
        add(BR_EVENT_MESSAGE, ACCEPTOR)->inline_ = inline_[0];
    } else if (mirror.links[ACCEPTOR].authenticated) {
        copy(frames);
        add(BR_EVENT_DATA, ACCEPTOR)->slot = frames->slot;
    }
    return 1;
}

static int poll(struct br_device *base, uint64_t now, struct br_event *out, int max)
{
    int n = n_events < max ? n_events : max;

    (void)base, (void)now;
    memcpy(out, events, (size_t)n * sizeof *out);
    n_events -= n;
    memmove(events, events + n, (size_t)n_events * sizeof *out);
    return n;
}

static int release(struct br_device *base, struct br_link *link, void *buffer)
{
    (void)base, (void)link, (void)buffer;
    return 0;
}

const struct br_transport_ops mirror_ops = {
    .name = "mirror",
    .device_open = device_open,
    .device_close = device_close,
    .region_register = region_register,
    .region_release = region_release,
    .link_connect = link_connect,
    .link_close = link_close,
    .post = post,
    .poll = poll,
    .release = release,
};
