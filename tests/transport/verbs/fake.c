/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fake_inside.h"

#define CONTEXTS 16
#define OBJECTS  2048
#define CALLS    64

struct fake_device fake_devices[FAKE_DEVICES];
struct fake_live fake_alive;
static struct ibv_device devices[FAKE_DEVICES];
static struct fake_context *contexts[CONTEXTS]; /* all that are open */
static void *objects[OBJECTS];                  /* all that is alive, and what a fault has kept */
static struct br_verbs_library library;
static struct {
    const char *call;
    int nth, err;
    bool always, happened;
} fault;
static struct {
    const char *name;
    int n;
} calls[CALLS];

/* ---- faults ---------------------------------------------------------------------------------- */

static void count(const char *call)
{
    int i = 0;

    while (calls[i].name && strcmp(calls[i].name, call) != 0)
        i++;
    assert_true(i < CALLS - 1);
    calls[i].name = call;
    calls[i].n++;
}

int fake_calls(const char *call)
{
    for (int i = 0; i < CALLS && calls[i].name; i++)
        if (!strcmp(calls[i].name, call))
            return calls[i].n;
    return 0;
}

/* A positive errno, as the calls that return one do; -1: a fault without errno. 0: it works. */
int fake_fails(const char *call)
{
    count(call);
    if (!fault.call || strcmp(fault.call, call) != 0 || (fault.happened && !fault.always) ||
        --fault.nth > 0)
        return 0;
    fault.happened = true;
    return fault.err ? fault.err : -1;
}

/* The same for calls that return a pointer or -1, and leave errno. */
bool fake_fails_by_errno(const char *call)
{
    int err = fake_fails(call);

    if (err)
        errno = err > 0 ? err : 0;
    return err != 0;
}

void fake_fail(const char *call, int nth, int err)
{
    fault.call = call;
    fault.nth = nth;
    fault.err = err;
    fault.always = fault.happened = false;
}

void fake_fail_always(const char *call, int err)
{
    fake_fail(call, 1, err);
    fault.always = true;
}

void fake_heal(void)
{
    fault.call = NULL;
}

bool fake_has_failed(void)
{
    return fault.happened;
}

/* ---- devices --------------------------------------------------------------------------------- */

void *fake_make(size_t bytes, int *counter)
{
    void *object = calloc(1, bytes);
    int i = 0;

    assert_non_null(object);
    while (objects[i])
        i++;
    assert_true(i < OBJECTS - 1);
    objects[i] = object;
    ++*counter;
    return object;
}

void fake_drop(void *object, int *counter)
{
    int i = 0;

    while (objects[i] != object)
        i++;
    objects[i] = NULL;
    free(object);
    --*counter;
}

static struct ibv_device **get_device_list(int *n)
{
    struct ibv_device **list;

    if (fake_fails_by_errno("get_device_list"))
        return NULL;
    list = calloc(FAKE_DEVICES + 1, sizeof(struct ibv_device *));
    assert_non_null(list);
    for (int i = 0; i < FAKE_DEVICES; i++)
        list[i] = &devices[i];
    *n = FAKE_DEVICES;
    return list;
}

static void free_device_list(struct ibv_device **list)
{
    free(list);
}

static const char *get_device_name(struct ibv_device *device)
{
    return device->name;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
    struct fake_context *context;
    int i = 0;

    if (fake_fails_by_errno("open_device"))
        return NULL;
    context = fake_make(sizeof *context, &fake_alive.contexts);
    context->device = (int)(device - devices);
    context->base.device = device;
    fake_queues_operations(&context->base.ops);
    fake_pairs_operations(&context->base.ops);
    context->base.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    assert_true(context->base.async_fd >= 0);
    while (contexts[i])
        i++;
    assert_true(i < CONTEXTS);
    contexts[i] = context;
    return &context->base;
}

static int close_device(struct ibv_context *base)
{
    struct fake_context *context = (struct fake_context *)base;
    int i = 0;

    if (fake_fails_by_errno("close_device"))
        return -1;
    if (context->children || context->unacknowledged) {
        errno = EBUSY;
        return -1;
    }
    while (contexts[i] != context)
        i++;
    contexts[i] = NULL;
    close(base->async_fd);
    fake_drop(context, &fake_alive.contexts);
    return 0;
}

struct ibv_device *fake_ibv_device(int device)
{
    return &devices[device];
}

const struct fake_device *fake_device_of(const struct ibv_context *context)
{
    return &fake_devices[((const struct fake_context *)context)->device];
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *out)
{
    int err = fake_fails("query_device");

    memset(out, 0, sizeof *out);
    if (err)
        return err;
    out->phys_port_cnt = 1;
    out->max_cqe = fake_device_of(context)->max_cqe;
    out->max_srq_wr = fake_device_of(context)->max_srq_wr;
    out->max_qp_wr = fake_device_of(context)->max_qp_wr;
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t port,
                      struct _compat_ibv_port_attr *compat)
{
    struct ibv_port_attr *out = (struct ibv_port_attr *)compat;
    int err = fake_fails("query_port");

    if (err || port != 1)
        return err ? err : EINVAL;
    out->state = fake_device_of(context)->state;
    out->link_layer = fake_device_of(context)->link_layer;
    out->active_mtu = out->max_mtu = IBV_MTU_4096;
    out->gid_tbl_len = 1;
    return 0;
}

static int query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *out)
{
    if (fake_fails_by_errno("query_gid"))
        return -1;
    assert_int_equal(port, 1);
    assert_int_equal(index, 0);
    *out = fake_device_of(context)->gid;
    return 0;
}

static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                               size_t max, uint32_t flags, size_t bytes)
{
    static const union ibv_gid none;

    assert_int_equal(bytes, sizeof *entries);
    assert_int_equal(flags, 0);
    if (!max || !memcmp(&fake_device_of(context)->gid, &none, sizeof none))
        return 0;
    entries[0] = (struct ibv_gid_entry){
        .gid = fake_device_of(context)->gid, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};
    return 1;
}

/* ---- asynchronous events --------------------------------------------------------------------- */

void fake_raise(struct fake_context *context, struct ibv_async_event event)
{
    uint64_t one = 1;

    assert_true(context->tail - context->head < FAKE_EVENTS);
    context->events[context->tail++ % FAKE_EVENTS] = event;
    assert_int_equal(write(context->base.async_fd, &one, sizeof one), sizeof one);
}

void fake_event(int device, enum ibv_event_type type, uint8_t port)
{
    for (int i = 0; i < CONTEXTS; i++)
        if (contexts[i] && contexts[i]->device == device)
            fake_raise(contexts[i],
                       (struct ibv_async_event){.element.port_num = port, .event_type = type});
}

void fake_event_qp(enum ibv_event_type type, struct ibv_qp *qp)
{
    fake_raise((struct fake_context *)qp->context,
               (struct ibv_async_event){.element.qp = qp, .event_type = type});
}

static int get_async_event(struct ibv_context *base, struct ibv_async_event *out)
{
    struct fake_context *context = (struct fake_context *)base;
    uint64_t one;

    if (fake_fails_by_errno("get_async_event") ||
        read(base->async_fd, &one, sizeof one) != sizeof one)
        return -1;
    *out = context->events[context->head++ % FAKE_EVENTS];
    context->unacknowledged++;
    return 0;
}

static void ack_async_event(struct ibv_async_event *event)
{
    struct fake_context *context = NULL;

    for (int i = 0; i < CONTEXTS && !context; i++)
        if (contexts[i] && contexts[i]->unacknowledged)
            context = contexts[i];
    assert_non_null(context);
    context->unacknowledged--;
    memset(event, 0xee, sizeof *event); /* it is not to be read any more */
}

static const char *event_type_str(enum ibv_event_type type)
{
    static char text[32];

    snprintf(text, sizeof text, "event %d", type);
    return text;
}

static const char *wc_status_str(enum ibv_wc_status status)
{
    static char text[32];

    snprintf(text, sizeof text, "status %d", status);
    return text;
}

static const char *port_state_str(enum ibv_port_state state)
{
    return state == IBV_PORT_ACTIVE ? "active" : "down";
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct br_verbs_library own = {.get_device_list = get_device_list,
                                            .free_device_list = free_device_list,
                                            .get_device_name = get_device_name,
                                            .open_device = open_device,
                                            .close_device = close_device,
                                            .query_device = query_device,
                                            .query_port_compat = query_port,
                                            .query_gid = query_gid,
                                            .get_async_event = get_async_event,
                                            .ack_async_event = ack_async_event,
                                            .wc_status_str = wc_status_str,
                                            .event_type_str = event_type_str,
                                            .port_state_str = port_state_str,
                                            .query_gid_table = query_gid_table};

void fake_install(void)
{
    memset(&fault, 0, sizeof fault);
    memset(calls, 0, sizeof calls);
    for (int i = 0; i < FAKE_DEVICES; i++) {
        static const uint8_t loopback[16] = {[10] = 0xff, [11] = 0xff, [12] = 127};

        snprintf(devices[i].name, sizeof devices[i].name, "fake%d", i);
        devices[i].transport_type = IBV_TRANSPORT_IB;
        fake_devices[i] = (struct fake_device){.state = IBV_PORT_ACTIVE,
                                               .link_layer = IBV_LINK_LAYER_ETHERNET,
                                               .max_srq_wr = 1024,
                                               .max_qp_wr = 256,
                                               .max_cqe = 1 << 16};
        memcpy(fake_devices[i].gid.raw, loopback, sizeof loopback);
        fake_devices[i].gid.raw[15] = (uint8_t)(i + 1);
    }
    setenv("BRAID_GID_INDEX", "0", 1);
    library = own;
    fake_memory = NULL;
    fake_queues_fill(&library);
    fake_pairs_fill(&library);
    fake_cm_fill(&library);
    br_verbs_library_replace(&library);
}

void fake_without_cm(void)
{
    snprintf(library.cm_why_not, sizeof library.cm_why_not, "librdmacm is not installed");
}

struct fake_live fake_live(void)
{
    return fake_alive;
}

void fake_abandon(void)
{
    memset(&fake_alive, 0, sizeof fake_alive);
    memset(contexts, 0, sizeof contexts);
    fake_pairs_abandon();
}

void fake_remove(void)
{
    static const struct fake_live nothing;

    br_verbs_library_replace(NULL);
    unsetenv("BRAID_GID_INDEX");
    fake_heal();
    assert_memory_equal(&fake_alive, &nothing, sizeof fake_alive);
}
