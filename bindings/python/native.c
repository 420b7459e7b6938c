/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * C of the Python module: what would take too long in Python, or cannot be said there. build.py
 * puts it into the generated source, behind braid's headers and Python.h. All of it runs without
 * the interpreter's lock, as every call through cffi does.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Of call_NAME(): the operation still runs. No error number of braid's is positive. */
#define OP_RUNS 1

static _Thread_local struct braid_op *running;

/* braid_wait(), but OP_RUNS where that says "still running": then op lives on. */
static int op_wait(struct braid_op *op, int timeout_ms)
{
    int rc = braid_wait(op, timeout_ms);

    return rc == -ETIMEDOUT && strstr(braid_last_error(), "still running") ? OP_RUNS : rc;
}

/* The operation for which call_NAME() has just returned OP_RUNS in this thread. */
static struct braid_op *op_running(void)
{
    return running;
}

/* A call has returned 0 and op; NULL: it has waited for the end (braid_options.wait_ms). */
static int op_begun(struct braid_op *op)
{
    running = op;
    return op ? OP_RUNS : 0;
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

static _Thread_local struct completion *submitted;

/* That of the operation for which call_NAME() has just returned OP_RUNS, with `later`.
 */
static struct completion *op_completion(void)
{
    return submitted;
}

/* Submits by `call`, with `options` changed so that op_done() is called; op: the caller's variable.
 */
#define OP_LATER(options, call)                                                                    \
    do {                                                                                           \
        struct braid_options later = {.struct_size = sizeof later};                                \
        int rc;                                                                                    \
                                                                                                   \
        if (options)                                                                               \
            later = *options;                                                                      \
        submitted = calloc(1, sizeof *submitted);                                                  \
        if (!submitted)                                                                            \
            return -ENOMEM;                                                                        \
        later.done = op_done;                                                                      \
        later.context = submitted;                                                                 \
        options = &later;                                                                          \
        rc = call;                                                                                 \
        if (rc)                                                                                    \
            free(submitted);                                                                       \
        return rc ? rc : op_begun(op);                                                             \
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
