/* SPDX-License-Identifier: BSD-3-Clause */
/* The timeline of a job (BRAID_TRACE; base/trace.h, doc/trace.md): its file, and the rows of
 * operations. The engine adds steps, protocol/tracing.c slices. */
#ifndef BR_COLLECTIVES_STATS_TRACING_H
#define BR_COLLECTIVES_STATS_TRACING_H

#include <stdint.h>

struct br_context;
struct br_operation;
struct br_trace;

/* Opens this rank's file, where one is wanted. Returns 0, or an error of the file with a message.
 */
int br_tracing_open(struct br_context *context);
void br_tracing_close(struct br_context *context);

/* Names the rows of all rails. Takes the context's lock. Returns 0. */
int br_tracing_rails(struct br_context *context);

/* Where somebody wants a timeline. begin: the engine gets the operation; end: the operation has
 * ended. Under the context's lock, where there is a context. */
void br_tracing_begin(struct br_trace *trace, struct br_operation *op, uint64_t now);
void br_tracing_end(struct br_trace *trace, struct br_operation *op, uint64_t now);

#endif
