/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The back ends that are built in, each completed with defaults for what it lacks, so that no
 * caller ever checks a function pointer.
 */
#include "transport/transport.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "transport/backends.h"

#define MAX_BACKENDS 8

static const struct br_transport_ops *const built_in[] = {BR_BACKENDS NULL};
static struct br_transport_ops completed[MAX_BACKENDS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int no_probe(struct br_device_info *out, int max)
{
    (void)out, (void)max;
    return 0;
}

static int no_device_open(const struct br_device_config *config, struct br_device **out)
{
    (void)config, (void)out;
    return br_error(EOPNOTSUPP, "this back end cannot open devices");
}

static int no_region_register(struct br_device *device, struct br_region *region)
{
    (void)device, (void)region;
    return 0; /* a back end without keys takes any memory */
}

static void no_region_release(struct br_device *device, struct br_region *region)
{
    (void)device, (void)region;
}

static int no_rkey(struct br_device *device, struct br_slot *slot, uint8_t token[BR_RKEY_BYTES])
{
    (void)device, (void)slot, (void)token;
    return br_error(EOPNOTSUPP, "this back end makes no remote keys");
}

static int no_share(struct br_link *link, const struct br_region *own, uint32_t id,
                    struct br_shared *theirs)
{
    (void)link, (void)own, (void)id, (void)theirs;
    return -EOPNOTSUPP;
}

static int no_arm(struct br_device *device)
{
    (void)device;
    return -EOPNOTSUPP;
}

/* device_close, link_connect, link_close, post, poll and release have no
 * sensible default: a back end that opens devices has them (the contract suite checks). */
static void transport_table_complete(struct br_transport_ops *ops)
{
#define DEFAULT(field)                                                                             \
    if (!ops->field)                                                                               \
    ops->field = no_##field
    DEFAULT(probe);
    DEFAULT(device_open);
    DEFAULT(region_register);
    DEFAULT(region_release);
    DEFAULT(rkey);
    DEFAULT(share);
    DEFAULT(arm);
#undef DEFAULT
}

static void complete_all(void)
{
    for (int i = 0; built_in[i]; i++) {
        completed[i] = *built_in[i];
        transport_table_complete(&completed[i]);
    }
}

const struct br_transport_ops *br_transport_at(int i)
{
    pthread_once(&once, complete_all);
    return i >= 0 && i < MAX_BACKENDS && completed[i].name ? &completed[i] : NULL;
}

const struct br_transport_ops *br_transport_get(const char *name)
{
    const struct br_transport_ops *ops;

    for (int i = 0; name && (ops = br_transport_at(i)); i++)
        if (!strcmp(ops->name, name))
            return ops;
    return NULL;
}

struct br_transport_traits br_transport_traits(const char *name)
{
    const struct br_transport_ops *ops = br_transport_get(name);

    return ops ? ops->traits : (struct br_transport_traits){0};
}

const struct br_transport_ops *br_transport_default(bool rdma)
{
    const struct br_transport_ops *ops;

    for (int i = 0; (ops = br_transport_at(i)); i++)
        if (!ops->traits.within_host && !ops->traits.owns_device && ops->traits.rdma == rdma)
            return ops;
    return NULL;
}

bool br_transport_known(const char *name)
{
    static const char *const names[] = {"tcp", "udp", "dpdk", "verbs", "shm"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}
