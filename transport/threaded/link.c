/* SPDX-License-Identifier: BSD-3-Clause */
/* Links of a device with a thread: by the worker. */
#include "transport/threaded/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

struct br_threaded_link *br_threaded_link_make(struct br_threaded_device *device,
                                               struct br_link *inner)
{
    struct br_threaded_link *link = br_pool_get(&device->links);

    memset(link, 0, sizeof *link);
    link->base.device = &device->base;
    memcpy(link->base.peer_name, inner->peer_name, sizeof link->base.peer_name);
    link->inner = inner;
    inner->owner = link;
    link->index = device->n_open;
    device->open[device->n_open++] = link;
    device->unauthenticated++;
    return link;
}

int br_threaded_connect(struct br_device *base, const struct br_address *address,
                        struct br_link **out)
{
    struct br_threaded_device *device = (struct br_threaded_device *)base;
    struct br_threaded_link *link = NULL;
    struct br_link *inner;
    int rc;

    br_threaded_lock(device);
    rc = device->inner->ops->link_connect(device->inner, address, &inner);
    if (!rc)
        link = br_threaded_link_make(device, inner);
    br_threaded_unlock(device);
    if (rc)
        return rc;
    device->pending[device->n_pending++] = link;
    *out = &link->base;
    br_threaded_wake(device, BR_THREADED_IDLE);
    return 0;
}

/* Strikes out the events that have not been taken. Under the lock, so none is added meanwhile. */
static void forget_events(struct br_threaded_device *device, const struct br_threaded_link *link)
{
    for (uint32_t i = atomic_load(&device->head); i != atomic_load(&device->tail); i++) {
        struct br_event *event = &device->events[i % BR_THREADED_EVENTS].event;

        if (event->link == &link->base)
            event->link = NULL;
    }
}

void br_threaded_close(struct br_link *base)
{
    struct br_threaded_link *link = (struct br_threaded_link *)base;
    struct br_threaded_device *device = br_threaded_device_of(base);

    for (uint32_t i = 0; i < device->n_pending; i++)
        if (device->pending[i] == link) {
            device->pending[i] = device->pending[--device->n_pending];
            break;
        }
    br_threaded_lock(device);
    device->unauthenticated -= !link->inner->authenticated;
    device->inner->ops->link_close(link->inner);
    forget_events(device, link);
    device->open[link->index] = device->open[--device->n_open];
    device->open[link->index]->index = link->index;
    br_pool_put(&device->links, link);
    br_threaded_unlock(device);
}

int br_threaded_post(struct br_link *base, const struct br_frame *frames, int n)
{
    struct br_threaded_link *link = (struct br_threaded_link *)base;
    const struct br_caps *caps = &base->device->caps;
    uint32_t posted = atomic_load_explicit(&link->posted, memory_order_relaxed);
    uint32_t room =
        BR_THREADED_POSTS - (posted - atomic_load_explicit(&link->accepted, memory_order_acquire));
    int taken = 0;

    if (link->error)
        return link->error;
    if (room < (uint32_t)n) { /* note 6 */
        atomic_store(&br_threaded_device_of(base)->room, BR_THREADED_WANTED);
        room = BR_THREADED_POSTS - (posted - atomic_load(&link->accepted));
    }
    for (; taken < n && (uint32_t)taken < room; taken++) {
        const struct br_frame *frame = &frames[taken];
        struct br_threaded_post *post =
            &link->posts[(posted + (uint32_t)taken) % BR_THREADED_POSTS];

        if (frame->length > (frame->kind == BR_FRAME_MESSAGE ? caps->max_message : caps->max_frame))
            break;
        post->frame = *frame;
        post->frame.rkey = NULL;
        post->has_inline = frame->inline_ != NULL;
        if (frame->inline_)
            memcpy(post->inline_, frame->inline_, BR_FRAME_INLINE);
    }
    if (!taken)
        return room && n
                   ? br_error(EMSGSIZE, "a frame of %u bytes is too long to post", frames->length)
                   : 0;
    atomic_store(&link->posted, posted + (uint32_t)taken);
    br_threaded_wake(br_threaded_device_of(base), BR_THREADED_IDLE);
    return taken;
}

int br_threaded_release(struct br_device *base, struct br_link *of, void *buffer)
{
    struct br_threaded_device *device = (struct br_threaded_device *)base;
    struct br_threaded_link *link = (struct br_threaded_link *)of;
    uint32_t released = atomic_load_explicit(&link->released, memory_order_relaxed);
    int rc;

    if (released - atomic_load_explicit(&link->returned, memory_order_acquire) ==
        br_threaded_buffers(&device->config)) { /* the back end has more than it was asked for */
        br_threaded_lock(device);
        rc = device->inner->ops->release(device->inner, link->inner, buffer);
        br_threaded_unlock(device);
        return rc;
    }
    link->buffers[released % br_threaded_buffers(&device->config)] = buffer;
    atomic_store(&link->released, released + 1);
    br_threaded_wake(device, BR_THREADED_IDLE);
    return 0;
}
