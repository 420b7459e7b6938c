/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/gpu/stream_block.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "collectives/comm/context.h"
#include "gpu/stream_op.h"

bool br_streams_block(struct br_context *context)
{
    if (pthread_mutex_trylock(&context->stream_lock))
        return false;
    if (br_stream_ops_idle(context->stream_ops))
        return true;
    pthread_mutex_unlock(&context->stream_lock);
    return false;
}

void br_streams_unblock(struct br_context *context)
{
    pthread_mutex_unlock(&context->stream_lock);
}

bool br_streams_wait_and_block(struct br_context *context, uint64_t timeout)
{
    uint64_t until = br_clock_now() + timeout;
    const struct timespec nap = {0, 50000};

    while (!br_streams_block(context)) {
        if (br_clock_now() > until)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}
