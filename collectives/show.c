/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/show.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "collectives/matching.h"

#define SPAN_TEXT 48 /* bytes of one span as text */

static const char *const kinds[] = {"send", "recv", "reduce", "copy"};

/* "out[3..5]" */
static const char *span_text(struct br_span span, char text[SPAN_TEXT])
{
    static const char *const names[BR_BUFFERS] = {"in", "out", "scratch"};

    if (span.count == 1)
        snprintf(text, SPAN_TEXT, "%s[%u]", names[span.buffer], span.first);
    else
        snprintf(text, SPAN_TEXT, "%s[%u..%u]", names[span.buffer], span.first, span.first + span.count - 1);
    return text;
}

/* "send out[3] to 2", "reduce out[1] = in[1] + scratch[0], final" */
static void show_step(const struct br_schedule *schedule, const struct br_step *step, FILE *stream)
{
    char text[SPAN_TEXT];

    fprintf(stream, "%s %s", kinds[step->kind], span_text(step->span, text));
    if (step->kind == BR_STEP_SEND || step->kind == BR_STEP_RECV)
        fprintf(stream, step->kind == BR_STEP_SEND ? " to %u" : " from %u", step->peer);
    for (uint32_t i = 0; i < step->n_sources; i++)
        fprintf(stream, "%s%s", i == 0 ? " = " : " + ",
                span_text(schedule->sources[step->first_source + i].span, text));
    if (step->level != BR_LEVEL_ANY && step->n_sources == 0)
        fprintf(stream, ", level %u", step->level);
    if (step->flags & BR_STEP_FINAL)
        fprintf(stream, ", final");
    if (step->flags & BR_STEP_MAY_MAP)
        fprintf(stream, ", may map");
}

static int end(FILE *stream)
{
    return fflush(stream) != 0 || ferror(stream) ? br_error(EIO, "cannot write the drawing of a schedule")
                                                 : 0;
}

int br_show_text(const struct br_schedule *schedule, FILE *stream)
{
    fprintf(stream, "%s, rank %u of %u", br_collective_name(schedule->collective), schedule->rank,
            schedule->n);
    if (schedule->collective == BR_BROADCAST || schedule->collective == BR_REDUCE)
        fprintf(stream, ", root %u", schedule->root);
    fprintf(stream, "%s: %u pieces a block, %u scratch chunks, %u steps\n",
            schedule->in_place ? ", in place" : "", schedule->pieces, schedule->n_scratch, schedule->n_steps);
    for (uint32_t i = 0; i < schedule->n_steps; i++) {
        const struct br_step *step = &schedule->steps[i];

        fprintf(stream, "%4u  ", i);
        show_step(schedule, step, stream);
        for (uint32_t j = 0; j < step->n_successors; j++)
            fprintf(stream, "%s%u", j == 0 ? "  -> " : " ", schedule->successors[step->first_successor + j]);
        fprintf(stream, "\n");
    }
    return end(stream);
}

static void show_cluster(const struct br_matching *m, uint32_t rank, FILE *stream)
{
    static const char *const colours[] = {"lightblue", "lightyellow", "lightgreen", "lightgrey"};
    const struct br_schedule *schedule = m->schedules[rank];

    fprintf(stream, "  subgraph cluster_%u {\n    label=\"rank %u\";\n", rank, rank);
    for (uint32_t i = 0; i < schedule->n_steps; i++) {
        const struct br_step *step = &schedule->steps[i];

        fprintf(stream, "    s%u [fillcolor=%s, label=\"", m->base[rank] + i, colours[step->kind]);
        show_step(schedule, step, stream);
        fprintf(stream, "\"];\n");
        for (uint32_t j = 0; j < step->n_successors; j++)
            fprintf(stream, "    s%u -> s%u;\n", m->base[rank] + i,
                    m->base[rank] + schedule->successors[step->first_successor + j]);
    }
    fprintf(stream, "  }\n");
}

int br_show_dot(const struct br_schedule *const *schedules, FILE *stream)
{
    struct br_matching m;
    int rc = br_matching_init(&m, schedules);

    if (rc == 0) {
        fprintf(stream, "digraph \"%s\" {\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n",
                br_collective_name(schedules[0]->collective));
        for (uint32_t r = 0; r < m.n; r++)
            show_cluster(&m, r, stream);
        for (uint32_t i = 0; i < m.n_steps; i++) {
            if (br_matching_step(&m, i)->kind == BR_STEP_SEND)
                fprintf(stream, "  s%u -> s%u [style=dashed, constraint=false];\n", i, m.partner[i]);
        }
        fprintf(stream, "}\n");
        rc = end(stream);
    }
    br_matching_destroy(&m);
    return rc;
}
