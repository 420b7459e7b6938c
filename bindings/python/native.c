/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * C of the Python module: what would take too long in Python, or cannot be said there. build.py
 * puts it into the generated source, behind braid's headers and Python.h. All of it runs without
 * the interpreter's lock, as every call through cffi does.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* What the functions here return besides 0 and braid's error numbers, which are negative. */
enum {
    OP_RUNS = 1,     /* the operation goes on */
    OP_IN_GROUP = 2, /* a call that blocks, in an open group: nothing was recorded */
    OP_NESTED = 3, /* too many calls that signal handlers have interrupted: nothing was submitted */
    OP_RAISED = 4, /* the operation has ended well, but functions of reductions have raised */
    OP_REFUSED = 1000 /* + errno: the question was refused, and the operation is what it was */
};

/* As long as an operation has not been started, or in the function of a reduction. */
static int op_ended(int rc)
{
    bool idle = rc == -EINVAL && strstr(braid_last_error(), "has not been started");

    return idle || rc == -EDEADLK ? OP_REFUSED - rc : rc;
}

/* braid_wait(), but OP_RUNS where that says "still running": then op lives on. */
static int op_wait(struct braid_op *op, int timeout_ms)
{
    int rc = braid_wait(op, timeout_ms);

    return rc == -ETIMEDOUT && strstr(braid_last_error(), "still running") ? OP_RUNS : op_ended(rc);
}

static int op_test(struct braid_op *op)
{
    int done = 0, rc = braid_test(op, &done);

    return rc || done ? op_ended(rc) : OP_RUNS;
}

/*
 * Operations that call_NAME() has begun in this thread and that no Operation of Python's stands for
 * yet. More than one where signal handlers, which run as soon as call_NAME() has returned, call
 * braid themselves. ticket: the call's, from Python; it finds what a call has begun that such a
 * handler has ended with an exception.
 */
struct begun {
    long long ticket;
    struct braid_op *op;
    struct completion *completion; /* of an operation that is not waited for at once; else NULL */
};

static _Thread_local struct {
    int groups; /* that are open, one in the other */
    int n;
    struct begun at[16];
} thread;

/* What the call with this ticket has begun; NULL: nothing, or it has been adopted. */
static struct begun *op_begun(long long ticket)
{
    for (int i = thread.n; i-- > 0;)
        if (thread.at[i].ticket == ticket)
            return &thread.at[i];
    return NULL;
}

/* An Operation stands for it. */
static void op_adopted(long long ticket)
{
    struct begun *found = op_begun(ticket);

    if (found)
        *found = thread.at[--thread.n];
}

/* Before anything is submitted: 0, OP_IN_GROUP or OP_NESTED. later: the call will not block. */
static int op_may_begin(int later)
{
    if (thread.groups && !later)
        return OP_IN_GROUP;
    return (size_t)thread.n < sizeof thread.at / sizeof *thread.at ? 0 : OP_NESTED;
}

static _Atomic int raised; /* the function of a reduction has raised an exception */

static void reduction_raised(void)
{
    atomic_store(&raised, 1);
}

/* A call has returned 0 and op; NULL: it has waited for the end (braid_options.wait_ms). */
static int op_goes_on(long long ticket, struct braid_op *op, struct completion *completion)
{
    if (!op)
        return atomic_load_explicit(&raised, memory_order_relaxed) ? OP_RAISED : 0;
    thread.at[thread.n++] = (struct begun){ticket, op, completion};
    return OP_RUNS;
}

static int group_start(void)
{
    int rc = braid_group_start();

    thread.groups += !rc;
    return rc;
}

static int group_end(void)
{
    thread.groups -= thread.groups > 0;
    return braid_group_end();
}

static int group_is_open(void)
{
    return thread.groups > 0;
}

/* ---- await ---- */

/* Of an operation that is not waited for at once. Python's Operation owns it, until the end. */
struct completion {
    _Atomic int ended; /* done has been called: braid_wait() returns as soon as that has returned */
};

/* Counts the ends of operations once somebody awaits one (awaiting.py); -1: nobody has yet. */
static _Atomic int awaited_fd = -1;

static void op_done(void *context, int result)
{
    struct completion *completion = context;
    uint64_t one = 1;
    int fd;

    (void)result;
    atomic_store(&completion->ended, 1);
    fd = atomic_load(&awaited_fd);
    if (fd >= 0 && write(fd, &one, sizeof one) < 0)
        return; /* the counter is full: its reader is awake */
}

/* The descriptor, or a negative errno. Stays open: operations may end until the process does. */
static int await_open(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);

    if (fd < 0)
        return -errno;
    atomic_store(&awaited_fd, fd);
    return fd;
}

static int op_has_ended(struct completion *completion)
{
    return atomic_load(&completion->ended);
}

/* A persistent operation begins again. */
static void op_begins(struct completion *completion)
{
    atomic_store(&completion->ended, 0);
}

static void op_forget(struct completion *completion)
{
    free(completion);
}

/* Submits by `call`, with `options` changed so that op_done() is called; op: the caller's variable.
 */
#define OP_LATER(ticket, options, call)                                                            \
    do {                                                                                           \
        struct completion *completion = calloc(1, sizeof *completion);                             \
        struct braid_options changed = {.struct_size = sizeof changed};                            \
        int failed;                                                                                \
                                                                                                   \
        if (!completion)                                                                           \
            return -ENOMEM;                                                                        \
        if (options)                                                                               \
            changed = *options;                                                                    \
        changed.done = op_done;                                                                    \
        changed.context = completion;                                                              \
        options = &changed;                                                                        \
        failed = call;                                                                             \
        if (failed)                                                                                \
            free(completion);                                                                      \
        return failed ? failed : op_goes_on(ticket, op, completion);                               \
    } while (0)

/* ---- arrays ---- */

/*
 * The beginning of numpy's PyArrayObject_fields (ndarraytypes.h), which every extension of numpy 1
 * and 2 has compiled into it. A buffer of PEP 3118 takes numpy 0.8 us to hand out, the attributes
 * of the array as long; this takes none. buffer.py compares it with an array's own words when it is
 * imported, and does without where they differ.
 */
struct array_fields {
    PyObject head;
    char *data;
    int nd;
    void *dimensions, *strides, *base, *descr;
    int flags;
};

#define ARRAY_C_CONTIGUOUS 0x0001
#define ARRAY_WRITEABLE    0x0400

/* object: id() of an ndarray. Where its elements are; 0: they do not lie one behind the other, or
 * are to be written and must not. */
static uintptr_t array_address(uintptr_t object, int written)
{
    const struct array_fields *array = (const struct array_fields *)object;
    int needed = ARRAY_C_CONTIGUOUS | (written ? ARRAY_WRITEABLE : 0);

    return (array->flags & needed) == needed ? (uintptr_t)array->data : 0;
}
