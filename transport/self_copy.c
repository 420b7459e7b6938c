/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/self_copy.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/error.h"

#define TIME     (10 * BR_SEC) /* for all of it, also on a host that is busy with other things */
#define PATIENCE (BR_SEC / 2)  /* so that a NIC gives up first, and says why */
#define LINKS    4             /* both ends of ours, and strangers' */
#define EVENTS   8

struct self_copy {
    const struct br_transport_ops *ops;
    struct br_device_config config;
    struct br_slot_table slots;
    struct br_device *device;
    struct br_link *link, *other;    /* the end that sends; the one that receives, once known */
    struct br_slot *keyed;           /* that has a remote key */
    uint8_t secret[BR_FRAME_INLINE]; /* that only the other end of our link can bring */
    uint64_t until;                  /* ns */
    bool connected, met, sent, arrived;
};

static int self_copy_open(struct self_copy *self)
{
    int rc = br_slot_table_init(&self->slots, 1);

    if (!rc && getrandom(self->secret, sizeof self->secret, 0) != (ssize_t)sizeof self->secret)
        rc = br_error(EIO, "getrandom: %s", strerror(errno));
    if (!rc)
        rc = br_transport_open(self->ops, &self->config, &self->device);
    return rc;
}

static int self_copy_event(struct self_copy *self, const struct br_event *event)
{
    switch (event->kind) {
    case BR_EVENT_CONNECTED:
        self->connected = true;
        return 0;
    case BR_EVENT_MESSAGE:
        if (!memcmp(event->inline_, self->secret, sizeof self->secret)) {
            self->other = event->link;
            self->met = self->other->authenticated = true;
        }
        return self->ops->release(self->device, event->link, event->buffer);
    case BR_EVENT_SENT:
        self->sent = true;
        return 0;
    case BR_EVENT_DATA:
        self->arrived = self->arrived || !event->stale;
        return 0;
    case BR_EVENT_CLOSED:
        /* a stranger's stays until the device is closed */
        return event->link == self->link || event->link == self->other
                   ? br_error(-event->error, "%s", event->link->message)
                   : 0;
    case BR_EVENT_ACCEPTED:
        return 0;
    }
    return 0;
}

/* One poll: how many events it has reported, or a negative errno. */
static int self_copy_step(struct self_copy *self)
{
    struct br_event events[EVENTS];
    uint64_t now = br_clock_now();
    int n, rc = 0;

    if (now > self->until)
        return br_error(ETIMEDOUT, "device %s: a write to itself has not ended after 10 s",
                        self->device->name);
    n = self->ops->poll(self->device, now, events, EVENTS);
    for (int i = 0; i < n && !rc; i++)
        rc = self_copy_event(self, &events[i]);
    if (!n)
        sched_yield();
    return rc ? rc : n;
}

/* Polls until *done: 0, or a negative errno. */
static int self_copy_await(struct self_copy *self, const bool *done)
{
    int rc = 0;

    while (rc >= 0 && !*done)
        rc = self_copy_step(self);
    return rc < 0 ? rc : 0;
}

/* post() has refused a frame. Of a link that has failed CLOSED says why, which is reported next. */
static int self_copy_refused(struct self_copy *self, int error)
{
    int rc;

    do
        rc = self_copy_step(self);
    while (rc > 0);
    return rc < 0 ? rc
                  : br_error_prefix(error,
                                    "device %s refuses a frame to itself: ", self->device->name);
}

/* Posts a frame, and polls until it is sent and *done. */
static int self_copy_send(struct self_copy *self, const struct br_frame *frame, const bool *done)
{
    int rc = 0, taken = 0;

    self->sent = false;
    while (rc >= 0 && !(taken = self->ops->post(self->link, frame, 1)))
        rc = self_copy_step(self);
    if (rc >= 0 && taken < 0)
        rc = self_copy_refused(self, taken);
    if (rc >= 0)
        rc = self_copy_await(self, &self->sent);
    return rc < 0 ? rc : self_copy_await(self, done);
}

/* The link is up, and both its ends know that it is ours. */
static int self_copy_connect(struct self_copy *self)
{
    struct br_frame greeting = {.kind = BR_FRAME_MESSAGE, .inline_ = self->secret, .cookie = 1};
    int rc = self->ops->link_connect(self->device, &self->device->address, &self->link);

    if (!rc)
        rc = self_copy_await(self, &self->connected);
    if (rc)
        return rc;
    self->link->authenticated = true;
    return self_copy_send(self, &greeting, &self->met);
}

static int self_copy_write(struct self_copy *self, struct br_region *region, size_t from, size_t to,
                           uint32_t bytes)
{
    struct br_slot *slot = br_slot_get(&self->slots, (uint8_t *)region->base + to, bytes, bytes);
    uint8_t *key = self->device->caps.needs_rkey ? slot->rkeys[self->device->index] : NULL;
    struct br_frame frame = {.kind = BR_FRAME_DATA,
                             .payload = (const uint8_t *)region->base + from,
                             .length = bytes,
                             .slot = br_slot_number(&self->slots, slot),
                             .rkey = key,
                             .region = region,
                             .cookie = 1};
    int rc;

    slot->region = region;
    rc = key ? self->ops->rkey(self->device, slot, key) : 0;
    if (rc)
        return rc;
    self->keyed = key ? slot : NULL;
    return self_copy_send(self, &frame, &self->arrived);
}

/* Nothing is under way to the region or from it any more. */
static void self_copy_end(struct self_copy *self)
{
    if (self->link)
        self->ops->link_close(self->link);
    if (self->other)
        self->ops->link_close(self->other);
    if (self->keyed)
        self->ops->rkey(self->device, self->keyed, NULL);
}

int br_self_copy(const struct br_transport_ops *ops, const struct br_device_config *config,
                 struct br_region *region, size_t from, size_t to, uint32_t bytes)
{
    struct self_copy self = {.ops = ops,
                             .config = {.name = config->name,
                                        .level = config->level,
                                        .slots = &self.slots,
                                        .message_bytes = 1024,
                                        .message_buffers = LINKS,
                                        .patience = PATIENCE,
                                        .any_port = true,
                                        .max_links = LINKS,
                                        .gid = config->gid},
                             .until = br_clock_now() + TIME};
    int rc = self_copy_open(&self);

    if (!rc && bytes > self.device->caps.max_frame)
        rc = br_error(EMSGSIZE, "device %s: %u bytes are to be copied, a frame has up to %u",
                      self.device->name, bytes, self.device->caps.max_frame);
    if (!rc)
        rc = ops->region_register(self.device, region);
    if (!rc) {
        rc = self_copy_connect(&self);
        if (!rc)
            rc = self_copy_write(&self, region, from, to, bytes);
        self_copy_end(&self);
        ops->region_release(self.device, region);
    }
    if (self.device)
        ops->device_close(self.device);
    br_slot_table_destroy(&self.slots);
    return rc;
}
