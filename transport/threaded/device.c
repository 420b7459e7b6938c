/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices with a thread of their own: open, close, and which back ends have them. */
#include "transport/threaded/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "transport/backends.h"

static void threaded_close(struct br_device *base)
{
    struct br_threaded_device *device = (struct br_threaded_device *)base;

    if (device->started) {
        atomic_store(&device->stop, true);
        br_threaded_wake(device, BR_THREADED_IDLE);
        pthread_join(device->thread, NULL);
    }
    if (device->inner)
        device->inner->ops->device_close(device->inner);
    br_slot_view_close(device->view);
    if (device->wake_fd >= 0)
        close(device->wake_fd);
    if (device->event_fd >= 0)
        close(device->event_fd);
    pthread_mutex_destroy(&device->lock);
    br_pool_destroy(&device->links);
    free(device->open);
    free(device->pending);
    free(device);
}

/* All but the inner device. config: of this device, whose inner one gets a copy. */
static int threaded_allocate(struct br_threaded_device *device,
                             const struct br_device_config *config)
{
    size_t link = sizeof(struct br_threaded_link) + br_threaded_buffers(config) * sizeof(void *);
    int rc;

    device->base.config = config;
    device->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    device->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (device->wake_fd < 0 || device->event_fd < 0)
        return br_error(errno, "no descriptor to wait for: %s", strerror(errno));
    device->open = calloc(config->max_links, sizeof(struct br_threaded_link *));
    device->pending = calloc(config->max_links, sizeof(struct br_threaded_link *));
    if (!device->open || !device->pending)
        return br_error(ENOMEM, "no memory for %u links", config->max_links);
    rc = br_pool_init(&device->links, link, config->max_links);
    if (!rc)
        rc = br_slot_view_open(config->slots, &device->view);
    if (rc)
        return rc;
    device->config = *config;
    device->config.slots = &device->view->face;
    return 0;
}

/* Opens the inner device and starts the thread. Messages of the inner device name it. */
static int threaded_start(struct br_threaded_device *device, const struct br_transport_ops *ops)
{
    char name[16];
    int rc = br_transport_open(ops, &device->config, &device->inner);

    if (rc)
        return rc;
    device->base.caps = device->inner->caps;
    device->base.caps.spares = false; /* it is the thread that sends, later */
    device->base.address = device->inner->address;
    memcpy(device->base.name, device->inner->name, sizeof device->base.name);
    device->config.name = device->base.name; /* the caller's need not outlive device_open() */
    rc = br_thread_start(&device->thread, br_threaded_run, device);
    if (rc)
        return br_error(rc, "device %s: no thread for it: %s", device->base.name, strerror(rc));
    device->started = true;
    snprintf(name, sizeof name, "braid-rail%d", device->config.level % 1000);
    pthread_setname_np(device->thread, name);
    br_log_debug("device %s: has a thread of its own", device->base.name);
    return 0;
}

static int threaded_open(const struct br_transport_ops *ops, const struct br_device_config *config,
                         struct br_device **out)
{
    struct br_threaded_device *device = aligned_alloc(64, (sizeof *device + 63) / 64 * 64);
    int rc;

    if (!device)
        return br_error(ENOMEM, "no memory for a device with a thread");
    memset(device, 0, sizeof *device);
    pthread_mutex_init(&device->lock, NULL);
    device->wake_fd = device->event_fd = -1;
    rc = threaded_allocate(device, config);
    if (!rc)
        rc = threaded_start(device, ops);
    if (rc) {
        threaded_close(&device->base);
        return rc;
    }
    *out = &device->base;
    return 0;
}

static int open_tcp(const struct br_device_config *config, struct br_device **out)
{
    return threaded_open(br_transport_get(br_tcp_ops.name), config, out);
}

static int open_udp(const struct br_device_config *config, struct br_device **out)
{
    return threaded_open(br_transport_get(br_udp_ops.name), config, out);
}

/* Those that move bytes by system calls; shared memory and NICs that write by themselves have no
 * work for a thread. */
static const struct {
    const struct br_transport_ops *ops;
    int (*open)(const struct br_device_config *config, struct br_device **out);
} with_threads[] = {{&br_tcp_ops, open_tcp}, {&br_udp_ops, open_udp}};

#define WITH_THREADS (sizeof with_threads / sizeof *with_threads)

static struct br_transport_ops threaded[WITH_THREADS];
static pthread_once_t threaded_once = PTHREAD_ONCE_INIT;

/* What these back ends lack, and probe(), does not look at a device. */
static void make_tables(void)
{
    for (size_t i = 0; i < WITH_THREADS; i++) {
        threaded[i] = *br_transport_get(with_threads[i].ops->name);
        threaded[i].device_open = with_threads[i].open;
        threaded[i].device_close = threaded_close;
        threaded[i].link_connect = br_threaded_connect;
        threaded[i].link_close = br_threaded_close;
        threaded[i].post = br_threaded_post;
        threaded[i].poll = br_threaded_poll;
        threaded[i].arm = br_threaded_arm;
        threaded[i].release = br_threaded_release;
    }
}

const struct br_transport_ops *br_transport_threaded(const struct br_transport_ops *ops)
{
    pthread_once(&threaded_once, make_tables);
    for (size_t i = 0; i < WITH_THREADS; i++)
        if (!strcmp(threaded[i].name, ops->name))
            return &threaded[i];
    return NULL;
}
