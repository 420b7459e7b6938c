/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/target.h"

#include "base/error.h"
#include "collectives/comm.h"
#include "collectives/reach.h"
#include "collectives/stage.h"
#include "gpu/direct.h"

static bool begin(void *context, struct br_target *t)
{
    struct br_family *family = context;

    if (!t->carried)
        t->region = br_reach_serve(family, t->peer, t->place, t->bytes, t->gpu, t->arrives);
    if (!t->region)
        return br_stage_target_begin(family->engine, t);
    t->memory = t->place;
    return true;
}

static bool store(void *context, struct br_target *t)
{
    struct br_family *family = context;
    int rc;

    if (t->stage) {
        br_stage_target_store(family->engine, t);
        return false;
    }
    rc = br_direct_flush(t->gpu);
    if (rc)
        br_worker_fail(family->worker, -rc, br_error_words());
    return !rc;
}

static void done(void *context, struct br_target *t)
{
    struct br_family *family = context;

    if (t->stage) {
        br_stage_target_done(family->engine, t);
        return;
    }
    br_memory_unuse(family, t->region);
    br_region_done(family, t->owner);
}

const struct br_target_hooks br_target_hooks = {.begin = begin, .store = store, .done = done};
