/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread beside the program: a thin shell around br_parameters_serve() and
 * br_parameters_work(). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/progress.h"
#include "training/parameters/parameters.h"

#define LOOK_AGAIN BR_SEC

void br_parameters_fail(struct braid_parameters *p, int rc)
{
    if (atomic_exchange(&p->failing, true))
        return;
    snprintf(p->message, sizeof p->message, "%s", br_error_message());
    atomic_store(&p->failed, rc);
}

static void *service_run(void *argument)
{
    struct braid_parameters *p = argument;
    struct br_context *context = p->comm->context;

    while (!atomic_load(&p->stop)) {
        uint64_t seen = br_progress_event_count(context);
        int served = 0, worked = 0;

        if (atomic_load(&p->ending) && !atomic_exchange(&p->ended, true))
            br_progress_signal(context);
        if (!atomic_load(&p->failed)) {
            served = br_parameters_shutdown_check(p);
            served = served ? served : br_parameters_serve(p);
            worked = served < 0 ? 0 : br_parameters_work(p);
        }
        if (served < 0 || worked < 0)
            br_parameters_fail(p, served < 0 ? served : worked);
        if (served || worked)
            br_progress_signal(context); /* the program may wait for it */
        else
            br_progress_wait_event(context, seen, LOOK_AGAIN);
    }
    return NULL;
}

int br_parameters_start(struct braid_parameters *p)
{
    int rc = br_thread_start(&p->thread, service_run, p);

    if (rc)
        return br_error(rc, "braid_parameters_create: cannot start a thread: %s", strerror(rc));
    p->has_thread = true;
    return 0;
}

void br_parameters_stop(struct braid_parameters *p)
{
    if (!p->has_thread)
        return;
    atomic_store(&p->stop, true);
    br_progress_signal(p->comm->context);
    pthread_join(p->thread, NULL);
    p->has_thread = false;
}
