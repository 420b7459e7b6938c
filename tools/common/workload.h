/* SPDX-License-Identifier: BSD-3-Clause */
/* A workload for the planners (training/session/workload.h) from what the command line names.
 * Blocks on files. */
#ifndef BR_TOOLS_COMMON_WORKLOAD_H
#define BR_TOOLS_COMMON_WORKLOAD_H

#include "collectives/tuning/cost.h"
#include "tools/common/model.h"
#include "tools/plan/settings.h"
#include "training/session/workload.h"

/* n numbers with commas between, none negative, and nothing else; or -EINVAL without a message. */
int br_tool_numbers(const char *text, int n, double *numbers);

struct br_tool_workload {
    struct br_model model;
    struct br_layer *layers;
    struct br_workload load;
    char cost[200]; /* text: where a and b are from */
};

/* 0, and br_tool_workload_close() afterwards; -errno with a message that names option, file and
 * line. */
int br_tool_workload_open(struct br_tool_workload *w, const struct br_plan_settings *set,
                          const struct br_cost_model *model, const char *figures);
void br_tool_workload_close(struct br_tool_workload *w);

#endif
