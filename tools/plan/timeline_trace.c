/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/plan/timeline.h"

#include <errno.h>

#include <cJSON.h>

#include "base/error.h"

#define PASSES     0 /* threads of a process */
#define REDUCTIONS 1

static cJSON *timeline_trace_event(cJSON *events, const char *phase, int process, int thread,
                                   const char *name)
{
    cJSON *e = cJSON_CreateObject();

    cJSON_AddStringToObject(e, "ph", phase);
    cJSON_AddNumberToObject(e, "pid", process);
    cJSON_AddNumberToObject(e, "tid", thread);
    cJSON_AddStringToObject(e, "name", name);
    cJSON_AddItemToArray(events, e);
    return e;
}

static void timeline_trace_call(cJSON *events, const char *what, int process, int thread,
                                const char *name)
{
    cJSON *arguments =
        cJSON_AddObjectToObject(timeline_trace_event(events, "M", process, thread, what), "args");

    cJSON_AddStringToObject(arguments, "name", name);
}

static cJSON *timeline_trace_span(cJSON *events, int process, int thread, const char *name,
                                  double from, double to)
{
    cJSON *e = timeline_trace_event(events, "X", process, thread, name);

    cJSON_AddNumberToObject(e, "ts", from * 1e6);
    cJSON_AddNumberToObject(e, "dur", (to - from) * 1e6);
    return e;
}

static void timeline_trace_add(cJSON *events, int process, const struct br_timeline_view *view)
{
    const struct br_timeline *line = view->line;
    char name[120];

    timeline_trace_call(events, "process_name", process, PASSES, view->policy);
    timeline_trace_call(events, "thread_name", process, PASSES, "passes");
    timeline_trace_call(events, "thread_name", process, REDUCTIONS, "all-reduces");
    for (uint32_t l = 0; l < line->n_layers; l++) {
        const struct br_timeline_layer *layer = &line->layers[l];

        snprintf(name, sizeof name, "backward %u %s", l + 1, view->model->layers[l].name);
        timeline_trace_span(events, process, PASSES, name, layer->backward, layer->backward_end);
        snprintf(name, sizeof name, "forward %u %s", l + 1, view->model->layers[l].name);
        timeline_trace_span(events, process, PASSES, name, layer->forward, layer->forward_end);
    }
    for (uint32_t i = 0; i < line->n_spans; i++) {
        const struct br_timeline_group *group = &line->groups[line->spans[i].group];
        cJSON *arguments;

        snprintf(name, sizeof name, "layers %u to %u", group->first + 1, group->last + 1);
        arguments =
            cJSON_AddObjectToObject(timeline_trace_span(events, process, REDUCTIONS, name,
                                                        line->spans[i].start, line->spans[i].end),
                                    "args");
        cJSON_AddNumberToObject(arguments, "bytes", group->bytes);
        cJSON_AddNumberToObject(arguments, "ready_us", group->ready * 1e6);
    }
}

int br_timeline_trace(const struct br_timeline_view *views, int n, FILE *out)
{
    cJSON *root = cJSON_CreateObject(), *events = cJSON_AddArrayToObject(root, "traceEvents");
    char *text;
    int rc = 0;

    for (int i = 0; i < n; i++)
        timeline_trace_add(events, i, &views[i]);
    text = cJSON_PrintUnformatted(root);
    if (!text)
        rc = br_error(ENOMEM, "no memory for the trace");
    else if (fprintf(out, "%s\n", text) < 0)
        rc = br_error(EIO, "cannot write the trace");
    cJSON_free(text);
    cJSON_Delete(root);
    return rc;
}
