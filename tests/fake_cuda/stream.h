/* SPDX-License-Identifier: BSD-3-Clause */
/* Work on a stream, and events. */
#ifndef FAKE_CUDA_STREAM_H
#define FAKE_CUDA_STREAM_H

#include <stdatomic.h>

#include "tests/fake_cuda/inside.h"

#define FAKE_ARGUMENTS      16
#define FAKE_ARGUMENT_BYTES 4096 /* of all of them, as CUDA has it */

enum fake_work_kind { COPY, SET, LAUNCH, CALL, RECORD, WAIT_EVENT, WAIT_VALUE, WRITE_VALUE };

struct fake_work {
    struct fake_work *next;
    enum fake_work_kind kind;
    br_cuda_pointer to, from;
    size_t bytes;
    uint64_t value;
    unsigned flags;
    struct CUevent_st *event;
    void (*call)(void *);
    void *argument;
    fake_cuda_kernel_fn *kernel;
    struct fake_cuda_launch launch;
    void *pointers[FAKE_ARGUMENTS];
    size_t offsets[FAKE_ARGUMENTS];
    _Alignas(16) char arguments[FAKE_ARGUMENT_BYTES];
};

struct CUstream_st {
    struct CUstream_st *next;
    struct CUctx_st *context;
    struct fake_work *first, *last;
    bool busy;     /* a thread runs its first work */
    unsigned late; /* queries that still say NOT_READY */
    unsigned capture;
};

/* In shared memory, so that an event works between processes. */
struct fake_event_state {
    _Atomic uint64_t recorded, done; /* numbers of records submitted, and of the last that ran */
};

struct CUevent_st {
    struct fake_event_state *state;
    int fd; /* behind state; -1: not for other processes */
    unsigned late;
    /* work in streams that names it, and 1 until it is destroyed: the last one frees it. Under
     * fake_lock */
    unsigned uses;
};

/* Under fake_lock: one use less. Returns whether fake_free_event() has to follow, without it. */
bool fake_drop_event(struct CUevent_st *event);
void fake_free_event(struct CUevent_st *event);

br_cuda_result fake_submit(struct CUstream_st *stream, const struct fake_work *work);

#endif
