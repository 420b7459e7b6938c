/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/gpu/onesided_target.h"

#include "base/error.h"
#include "collectives/comm/context.h"
#include "collectives/comm/memory.h"
#include "collectives/comm/operation_memory.h"
#include "protocol/worker.h"
#include "collectives/gpu/gpudirect.h"
#include "collectives/engine/staging.h"
#include "gpu/direct.h"

static bool onesided_target_begin(void *opaque, struct br_target *t)
{
    struct br_context *context = opaque;

    if (!t->carried)
        t->region = br_gpudirect_get_peer_region(context, t->peer, t->address, t->bytes, t->gpu,
                                                 t->arrives);
    if (!t->region)
        return br_staging_target_begin(context->engine, t);
    t->memory = t->address;
    return true;
}

static bool onesided_target_store(void *opaque, struct br_target *t)
{
    struct br_context *context = opaque;
    int rc;

    if (t->staging) {
        br_staging_target_store(context->engine, t);
        return false;
    }
    rc = br_direct_flush(t->gpu);
    if (rc)
        br_worker_fail(context->worker, -rc, br_error_message());
    return !rc;
}

static void onesided_target_done(void *opaque, struct br_target *t)
{
    struct br_context *context = opaque;

    if (t->staging) {
        br_staging_target_done(context->engine, t);
        return;
    }
    br_memory_unuse(context, t->region);
    br_region_done(context, t->owner);
}

const struct br_target_hooks br_target_hooks = {
    .begin = onesided_target_begin, .store = onesided_target_store, .done = onesided_target_done};
