/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * C of the Python module: what would take too long in Python, or cannot be said there. build.py
 * puts it into the generated source, behind braid's headers and Python.h. All of it runs without
 * the interpreter's lock, as every call through cffi does.
 */
#include <errno.h>
#include <string.h>
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

/* An operation was submitted: waits for at most wait_ms, or not at all if that is negative. A
 * collective of a few bytes takes less than a microsecond, so it must not take a second call. */
static int op_begun(struct braid_op *op, int wait_ms)
{
    int rc = wait_ms < 0 ? OP_RUNS : op_wait(op, wait_ms);

    running = op;
    return rc;
}

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
