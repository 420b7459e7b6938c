/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device of the verbs back end: open, close.
 *
 * Timeout of queue pairs: a packet is tried 8 times in all, each after 4.096 us * 2^timeout. The
 * least that br_device_config.patience asks for, but between 67 ms (14) and 0.54 s (17) a try: the
 * NIC answers by itself, so a peer that is merely stopped is not silent here, and a lost last
 * packet costs one whole timeout.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/backends.h"
#include "transport/interface.h"
#include "transport/verbs/probe.h"
#include "transport/verbs/verbs.h"

#define TIMEOUT_LEAST 14
#define TIMEOUT_MOST  17
#define TRIES         8
#define DEPTH_LEAST   16          /* work requests of a queue pair */
#define TX_BYTES      (8u << 20)  /* of copies on their way out, at most */
#define RX_BYTES      (32u << 20) /* of places without keys, at most */
#define COPIES        64 /* messages on their way out that do not go inline, of all links */
#define LINGER        (200 * BR_MS)

static uint8_t verbs_device_timeout_of(uint64_t patience)
{
    uint8_t timeout = TIMEOUT_LEAST;

    while (timeout < TIMEOUT_MOST && TRIES * (4096ull << timeout) < patience)
        timeout++;
    return timeout;
}

static int copy_port(struct br_verbs_device *device, const struct br_verbs_port *port)
{
    size_t bytes = (size_t)port->n_gids * sizeof *port->gids;
    struct br_gid *gids = malloc(bytes + 1);

    if (!gids)
        return br_error(ENOMEM, "no memory for %d GIDs", port->n_gids);
    if (bytes)
        memcpy(gids, port->gids, bytes);
    free(device->gids);
    device->gids = gids;
    device->port = (uint8_t)port->port;
    return 0;
}

/* The port that the name means, in `found` (of host), its GIDs in the device. */
static int verbs_device_find_port(struct br_verbs_device *device, struct br_verbs_host *host,
                                  const struct br_verbs_port **found)
{
    const struct br_device_config *config = device->base.config;
    struct br_gid_choice choice;
    int rc = br_verbs_host_read(host);

    if (!rc && *host->library)
        rc = br_error(ENOENT, "%s", host->library);
    if (!rc)
        rc = br_verbs_port_find(host, config->name, config->gid, found, &choice);
    if (!rc && device->context && /* the address may have moved to another NIC, but we cannot */
        (strcmp((*found)->device, device->library->get_device_name(device->context->device)) != 0 ||
         (*found)->port != device->port))
        rc = br_error(ENODEV, "what it was opened as is %s now", (*found)->name);
    if (!rc)
        rc = copy_port(device, *found);
    if (!rc)
        device->choice = choice;
    return rc;
}

int br_verbs_choose_gids(struct br_verbs_device *device)
{
    const struct br_verbs_port *found;
    struct br_verbs_host host;
    int rc = verbs_device_find_port(device, &host, &found);

    br_verbs_host_destroy(&host);
    for (int f = 0; f < BR_GID_FAMILIES && rc; f++)
        device->choice.entry[f] = -1; /* what stands at the old places is nobody's, or another's */
    return rc;
}

static int verbs_device_open_context(struct br_verbs_device *device, const char *name)
{
    struct ibv_device **list;
    int n, rc = -ENODEV;

    errno = 0;
    list = device->library->get_device_list(&n);
    if (!list)
        return br_error(br_verbs_errno(), "cannot list the RDMA devices: %s",
                        strerror(br_verbs_errno()));
    for (int i = 0; i < n && rc == -ENODEV; i++)
        if (!strcmp(device->library->get_device_name(list[i]), name)) {
            errno = 0;
            device->context = device->library->open_device(list[i]);
            rc = device->context ? 0 : -br_verbs_errno();
        }
    device->library->free_device_list(list);
    return rc ? br_error(-rc, "cannot open %s: %s", name, strerror(-rc)) : 0;
}

/* On Ethernet the address is in the GID; on InfiniBand it is that of the interface on the port. */
static int choose_address(struct br_verbs_device *device, const struct br_verbs_port *port)
{
    struct br_interface interface;
    int rc;

    memset(&device->address, 0, sizeof device->address);
    if (device->choice.entry[BR_GID_IPV4] >= 0) {
        device->address.any.sa_family = AF_INET;
        memcpy(&device->address.v4.sin_addr,
               device->gids[device->choice.entry[BR_GID_IPV4]].raw + 12, 4);
        return 0;
    }
    if (device->choice.entry[BR_GID_IPV6] >= 0) {
        if (IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)(const void *)device
                                      ->gids[device->choice.entry[BR_GID_IPV6]]
                                      .raw))
            return br_error(EADDRNOTAVAIL,
                            "a link-local GID cannot be connected to; name a routable one");
        device->address.any.sa_family = AF_INET6;
        memcpy(&device->address.v6.sin6_addr, device->gids[device->choice.entry[BR_GID_IPV6]].raw,
               16);
        return 0;
    }
    rc = br_interface_find(*port->netdev ? port->netdev : NULL, &interface);
    if (!rc)
        device->address = interface.address;
    return rc;
}

static int verbs_device_open_port(struct br_verbs_device *device)
{
    const struct br_verbs_port *port;
    struct br_verbs_host host;
    int rc = verbs_device_find_port(device, &host, &port);

    if (!rc) {
        snprintf(device->base.name, sizeof device->base.name, "%s", port->name);
        br_log_info("device %s (level %d): %s", device->base.name, device->base.config->level,
                    device->choice.message);
        rc = verbs_device_open_context(device, port->device);
    }
    if (!rc)
        rc = choose_address(device, port);
    br_verbs_host_destroy(&host);
    if (rc)
        return rc;
    rc = device->library->query_device(device->context, &device->limits);
    if (!rc)
        rc = br_verbs_query_port(device->library, device->context, device->port, &device->attr);
    return rc ? br_error(rc, "cannot ask the device what it can do: %s", strerror(rc)) : 0;
}

static int set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0
               ? br_error(errno, "fcntl: %s", strerror(errno))
               : 0;
}

static int verbs_device_watch(struct br_verbs_device *device, int fd, void *who)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = who};
    int rc = set_nonblocking(fd);

    if (!rc && epoll_ctl(device->epoll_fd, EPOLL_CTL_ADD, fd, &event))
        rc = br_error(errno, "epoll_ctl: %s", strerror(errno));
    return rc;
}

static int open_queues(struct br_verbs_device *device)
{
    const struct br_device_config *config = device->base.config;
    int rc;

    errno = 0;
    device->pd = device->library->alloc_pd(device->context);
    if (!device->pd)
        return br_error(br_verbs_errno(), "ibv_alloc_pd: %s", strerror(br_verbs_errno()));
    device->registrar = (struct br_verbs_registrar){.pd = device->pd,
                                                    .reg_mr = device->library->reg_mr,
                                                    .reg_mr_iova2 = device->library->reg_mr_iova2,
                                                    .reg_dmabuf_mr = device->library->reg_dmabuf_mr,
                                                    .dereg_mr = device->library->dereg_mr,
                                                    .name = device->base.name,
                                                    .counters = &device->base.counters};
    br_verbs_bounce_init(&device->tx, &device->registrar, BR_VERBS_ACCESS_LOCAL, TX_BYTES);
    br_verbs_bounce_init(&device->rx, &device->registrar, BR_VERBS_ACCESS_REMOTE, RX_BYTES);
    rc = br_pool_init(&device->copies, sizeof(struct br_frame_header) + config->message_bytes,
                      COPIES);
    if (!rc)
        rc = br_verbs_pin(&device->registrar, device->copies.memory, device->copies.size * COPIES,
                          BR_VERBS_ACCESS_LOCAL, &device->copies_mr);
    if (!rc)
        rc = br_verbs_receive_init(device);
    if (rc)
        return rc;
    errno = 0;
    device->channel = device->library->create_comp_channel(device->context);
    return device->channel ? 0
                           : br_error(br_verbs_errno(), "ibv_create_comp_channel: %s",
                                      strerror(br_verbs_errno()));
}

/* With room for everything that can be outstanding: a completion queue that runs over is lost. */
static int open_completions(struct br_verbs_device *device)
{
    const struct br_device_config *config = device->base.config;
    int pairs = (int)(config->max_links * device->classes.n), entries, depth;

    depth = (device->limits.max_cqe - (int)device->receive.target) / pairs;
    if (depth < DEPTH_LEAST)
        return br_error(
            E2BIG,
            "%u links with %u queue pairs each are too many for a completion queue of %d entries, "
            "which "
            "is all the device has; fewer ranks a device, more devices, or fewer priority classes",
            config->max_links, device->classes.n, device->limits.max_cqe);
    if (device->limits.max_qp_wr > 0 && depth > device->limits.max_qp_wr)
        depth = device->limits.max_qp_wr;
    device->depth = depth < (int)BR_VERBS_DEPTH ? (uint32_t)depth : BR_VERBS_DEPTH;
    entries = pairs * (int)device->depth + (int)device->receive.target;
    errno = 0;
    device->cq = device->library->create_cq(device->context, entries, NULL, device->channel, 0);
    return device->cq
               ? 0
               : br_error(br_verbs_errno(), "cannot make a completion queue of %d entries: %s",
                          entries, strerror(br_verbs_errno()));
}

static int verbs_device_allocate(struct br_verbs_device *device)
{
    const struct br_device_config *config = device->base.config;
    int rc = br_pool_init(&device->links, br_verbs_link_bytes(device), config->max_links);

    if (!rc)
        rc = br_table_init(&device->numbers, config->max_links * device->classes.n);
    device->open = calloc(config->max_links, sizeof(struct br_verbs_link *));
    br_slot_table_limit(config->slots, BR_VERBS_MAX_SLOTS);
    device->staging = calloc(BR_VERBS_MAX_SLOTS, sizeof *device->staging);
    if (!rc && (!device->open || !device->staging))
        rc = -ENOMEM;
    return rc ? br_error(-rc, "no memory for %u links", config->max_links) : 0;
}

static int verbs_device_start(struct br_verbs_device *device)
{
    static const char *const ways[] = {"tcp", "cm", NULL};
    int by_cm, rc = br_verbs_library(&device->library);

    if (!rc)
        rc = br_env_choice("BRAID_VERBS_CONNECT", ways, 0, &by_cm);
    if (!rc)
        rc = br_verbs_classes_parse(getenv("BRAID_SERVICE_LEVEL"), getenv("BRAID_TRAFFIC_CLASS"),
                                    &device->classes);
    if (!rc)
        rc = verbs_device_open_port(device);
    if (!rc)
        rc = verbs_device_allocate(device);
    if (!rc)
        rc = open_queues(device);
    if (!rc)
        rc = open_completions(device);
    if (rc)
        return rc;
    device->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (device->epoll_fd < 0)
        return br_error(errno, "epoll_create1: %s", strerror(errno));
    rc = verbs_device_watch(device, device->channel->fd, device->channel);
    if (!rc)
        rc = verbs_device_watch(device, device->context->async_fd, device->context);
    if (rc)
        return rc;
    return by_cm ? br_verbs_cm_listen(device) : br_verbs_listen(device);
}

/* What was posted last, a goodbye above all, is let out: the NIC is still at it. */
static void verbs_device_linger(struct br_verbs_device *device)
{
    uint64_t until = br_clock_now() + LINGER;
    bool busy = true;

    while (busy && br_clock_now() < until) {
        busy = false;
        br_verbs_drain(device);
        for (int i = 0; i < device->n_open; i++)
            busy = busy || br_verbs_flush(device->open[i]);
    }
}

static void verbs_device_check(const struct br_verbs_device *device, int rc, const char *what)
{
    if (rc)
        br_log_error("device %s: %s: %s", device->base.name, what, strerror(rc));
}

static void close_queues(struct br_verbs_device *device)
{
    const struct br_verbs_library *library = device->library;

    if (device->pd) {
        if (!br_verbs_unpin(&device->registrar, device->copies_mr))
            device->copies.memory = NULL; /* the NIC may still read there */
        br_verbs_bounce_destroy(&device->rx);
        br_verbs_bounce_destroy(&device->tx);
        br_verbs_receive_destroy(device);
    }
    if (device->cq)
        verbs_device_check(device, library->destroy_cq(device->cq), "ibv_destroy_cq");
    if (device->channel)
        verbs_device_check(device, library->destroy_comp_channel(device->channel),
                           "ibv_destroy_comp_channel");
    if (device->pd)
        verbs_device_check(device, library->dealloc_pd(device->pd), "ibv_dealloc_pd");
    if (device->context)
        verbs_device_check(device, library->close_device(device->context) ? errno : 0,
                           "ibv_close_device");
}

static void verbs_device_device_close(struct br_device *base)
{
    struct br_verbs_device *device = (struct br_verbs_device *)base;

    if (device->cq)
        verbs_device_linger(device);
    while (device->n_open)
        br_verbs_link_close(&device->open[0]->base);
    if (device->listen_fd >= 0)
        close(device->listen_fd);
    br_verbs_cm_destroy(device);
    if (device->epoll_fd >= 0)
        close(device->epoll_fd);
    close_queues(device);
    br_table_destroy(&device->numbers);
    br_pool_destroy(&device->copies);
    br_pool_destroy(&device->links);
    free(device->open);
    free(device->staging);
    free(device->gids);
    free(device);
}

static int verbs_device_device_open(const struct br_device_config *config, struct br_device **out)
{
    struct br_verbs_device *device = calloc(1, sizeof *device);
    int rc;

    if (!device)
        return br_error(ENOMEM, "device %s: no memory", config->name ? config->name : "(any)");
    device->base.config = config;
    device->base.caps = (struct br_caps){.max_frame = BR_FRAME_MAX_PAYLOAD,
                                         .max_message = config->message_bytes,
                                         .sent_means_arrived = true,
                                         .needs_rkey = true};
    snprintf(device->base.name, sizeof device->base.name, "%s",
             config->name ? config->name : "(any)");
    device->listen_fd = device->epoll_fd = -1;
    device->check_events = true;
    device->timeout = verbs_device_timeout_of(config->patience);
    br_list_init(&device->ready);
    br_list_init(&device->lent);
    br_list_init(&device->receive.spare);
    rc = verbs_device_start(device);
    if (rc) {
        br_error_prefix(rc, "device %s: ", device->base.name);
        verbs_device_device_close(&device->base);
        return rc;
    }
    br_verbs_address(device, &device->base.address);
    *out = &device->base;
    return 0;
}

static int verbs_device_region_register(struct br_device *base, struct br_region *region)
{
    return br_verbs_region_register(&((struct br_verbs_device *)base)->registrar, base->index,
                                    region);
}

static void verbs_device_region_release(struct br_device *base, struct br_region *region)
{
    br_verbs_region_release(&((struct br_verbs_device *)base)->registrar, base->index, region);
}

const struct br_transport_ops br_verbs_ops = {
    .name = "verbs",
    .traits = {.rdma = true},
    .probe = br_verbs_probe,
    .device_open = verbs_device_device_open,
    .device_close = verbs_device_device_close,
    .region_register = verbs_device_region_register,
    .region_release = verbs_device_region_release,
    .rkey = br_verbs_rkey,
    .link_connect = br_verbs_link_connect,
    .link_close = br_verbs_link_close,
    .post = br_verbs_post,
    .poll = br_verbs_poll,
    .arm = br_verbs_arm,
    .release = br_verbs_release,
};
