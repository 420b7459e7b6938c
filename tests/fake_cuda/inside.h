/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the fake driver share. */
#ifndef FAKE_CUDA_INSIDE_H
#define FAKE_CUDA_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/driver.h"
#include "tests/fake_cuda/fake_cuda.h"

/* The exported functions have the types that gpu/driver.h calls them by. */
#define DECLARE(field, symbol, parameters) br_cuda_result symbol parameters;
BR_CUDA_SYMBOLS(DECLARE)
BR_CUDA_OPTIONAL(DECLARE)

enum fake_needs { NOTHING, DRIVER, CONTEXT };

/* At the start of each function: what it needs, and whether it is to fail. */
br_cuda_result fake_enter(const char *symbol, enum fake_needs needs);
#define ENTER(symbol, needs)                                                                       \
    do {                                                                                           \
        br_cuda_result entered = fake_enter(#symbol, needs);                                       \
        if (entered)                                                                               \
            return entered;                                                                        \
    } while (0)

struct CUctx_st {
    int device;
    int retained;
};

struct CUctx_st *fake_current(void);
struct CUctx_st *fake_context_of(int device);

enum fake_kind { DEVICE, HOST, REGISTERED, MANAGED, RESERVED, OPENED };

/* A span of addresses that the driver knows. */
struct fake_memory {
    struct fake_memory *next;
    enum fake_kind kind;
    char *at;   /* what the caller has */
    char *real; /* where the bytes are; NULL: RESERVED, nothing mapped */
    size_t bytes;
    char *mapping[2]; /* of `at` and of `real`, whole pages */
    size_t mapped;    /* bytes of each mapping */
    int fd;           /* memfd behind it; -1: none */
    int device;
    bool foreign;             /* fake_cuda_make_foreign() */
    unsigned int synchronous; /* SYNC_MEMOPS */
    /* by cuMemCreate(), a span of a RESERVED one: cuIpcGetMemHandle() refuses it */
    bool created;
    unsigned handle; /* of that */
    unsigned long long id;
};

extern pthread_mutex_t fake_lock;
extern struct fake_cuda_counters fake_counted; /* under fake_lock */
extern unsigned fake_objects;    /* streams, events, modules, handles that live; under fake_lock */
extern atomic_int fake_captures; /* streams that capture, all in GLOBAL mode */
extern __thread unsigned int fake_capture_mode;

/* The span that holds an address, or NULL. Under fake_lock. */
struct fake_memory *fake_find(br_cuda_pointer address);
/* A span over fd (which it then owns; -1 makes one). Under fake_lock. */
br_cuda_result fake_map(enum fake_kind kind, int device, size_t bytes, int fd,
                        struct fake_memory **out);
void fake_unmap(struct fake_memory *memory);
/* A span that the caller has made, into the list and out of it. Found before older ones that hold
 * the same addresses. Under fake_lock. */
void fake_add(struct fake_memory *memory);
void fake_remove(struct fake_memory *memory);
bool fake_is_foreign(br_cuda_pointer address);
void fake_copy(br_cuda_pointer to, br_cuda_pointer from, size_t bytes);
/* Not under fake_lock. */
void fake_finish_late_copy(void);

/* Runs what can run on all streams; true: something did. Not under fake_lock. */
bool fake_pump(void);
/* All streams' work is done, or this process ends (fake_cuda.h, note 6). Not under fake_lock. */
void fake_wait_for_all(const char *symbol);
void fake_stop_thread(void);
void fake_start_thread(void);

#endif
