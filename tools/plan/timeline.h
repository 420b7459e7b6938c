/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures of time lines (training/session/timeline.h): text, SVG, and Chrome's trace format. One
 * thread. */
#ifndef BR_TOOLS_PLAN_TIMELINE_H
#define BR_TOOLS_PLAN_TIMELINE_H

#include <stdio.h>

#include "tools/common/model.h"
#include "training/session/timeline.h"

/* One policy's iteration; all is borrowed. */
struct br_timeline_view {
    const char *policy;
    const struct br_model *model; /* its layers are the line's */
    const struct br_timeline *line;
    double compute; /* s of both passes */
};

/* A line a layer: when its passes and its group run, and a bar of them. */
void br_timeline_text(const struct br_timeline_view *view, FILE *out);

/* A panel a policy, all on one scale: passes above, all-reduces below. */
void br_timeline_svg(const struct br_timeline_view *views, int n, FILE *out);

/* JSON for chrome://tracing or Perfetto: a process a policy, a thread for the passes and one for
 * the all-reduces. -ENOMEM or -EIO with a message. */
int br_timeline_trace(const struct br_timeline_view *views, int n, FILE *out);

#endif
