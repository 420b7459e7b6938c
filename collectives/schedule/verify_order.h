/* SPDX-License-Identifier: BSD-3-Clause */
/* Part of the verifier: the exact conflict check of one rank. Pure. */
#ifndef BR_COLLECTIVES_SCHEDULE_VERIFY_ORDER_H
#define BR_COLLECTIVES_SCHEDULE_VERIFY_ORDER_H

#include "collectives/schedule/schedule.h"

/* Any two steps on one chunk of which one writes must be ordered by the edges. The form of the
 * schedule has been checked. -EINVAL with a message that names rank, chunk and both steps;
 * -ENOMEM. */
int br_verify_order(const struct br_schedule *schedule);

#endif
