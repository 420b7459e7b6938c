/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/plan/show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "tools/plan/matching.h"

#define SPAN_TEXT 48 /* bytes of one span as text */

/* "out[3..5]" */
static const char *span_text(struct br_span span, char text[SPAN_TEXT])
{
    static const char *const names[BR_BUFFERS] = {"in", "out", "scratch"};

    if (span.count == 1)
        snprintf(text, SPAN_TEXT, "%s[%u]", names[span.buffer], span.first);
    else
        snprintf(text, SPAN_TEXT, "%s[%u..%u]", names[span.buffer], span.first,
                 span.first + span.count - 1);
    return text;
}

/*
 * Time runs downwards in rounds, a column is a rank. A SEND is in round 0 when nothing that it
 * needs has come in a message, else in the round after the last such message; its message arrives a
 * row below. A box says what a rank adds up and copies of what has arrived, then what it sends.
 */
struct drawing {
    struct br_matching m;
    /* of each step number: SEND, RECV: its message's round; else the row of the box */
    uint32_t *rounds;
    uint32_t n_rounds;
};

static const char *show_colour_of(uint8_t level)
{
    static const char *const colours[] = {"#1f6fb4", "#d9660a", "#2b8a3e", "#8244b0",
                                          "#b8203a", "#0b8a8a", "#8a6d0b", "#c2388f"};

    return level == BR_LEVEL_ANY ? "#444444" : colours[level % (sizeof colours / sizeof *colours)];
}

/* Whether a round had to be moved down. */
static bool show_settle(struct drawing *d, uint32_t number, uint32_t round)
{
    if (d->rounds[number] >= round)
        return false;
    d->rounds[number] = round;
    if (round >= d->n_rounds)
        d->n_rounds = round + 1;
    return true;
}

/* The row where what a step has got or made can be used. */
static uint32_t row_after(const struct drawing *d, uint32_t number)
{
    return d->rounds[number] + (br_matching_step(&d->m, number)->kind == BR_STEP_RECV);
}

/* Passes rounds on from steps to those that wait for them and from SENDs to their RECVs, until all
 * have settled. */
static void find_rounds(struct drawing *d)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < d->m.n_steps; i++) {
            const struct br_schedule *schedule = d->m.schedules[d->m.rank[i]];
            const struct br_step *step = br_matching_step(&d->m, i);

            if (step->kind == BR_STEP_SEND)
                moved |= show_settle(d, d->m.partner[i], d->rounds[i]);
            for (uint32_t j = 0; j < step->n_successors; j++) {
                uint32_t next =
                    d->m.base[schedule->rank] + schedule->successors[step->first_successor + j];

                if (br_matching_step(&d->m, next)->kind !=
                    BR_STEP_RECV) /* a RECV may only wait for its place */
                    moved |= show_settle(d, next, row_after(d, i));
            }
        }
    }
}

/* Peers of the SENDs of one span in one row, the first of which is `number`; 0: another one was the
 * first. */
static uint32_t show_peers(const struct drawing *d, uint32_t number, FILE *stream)
{
    const struct br_step *step = br_matching_step(&d->m, number);
    uint32_t rank = d->m.rank[number], n = 0;

    for (uint32_t i = d->m.base[rank]; i < d->m.base[rank + 1]; i++) {
        const struct br_step *other = br_matching_step(&d->m, i);

        if (other->kind != BR_STEP_SEND || d->rounds[i] != d->rounds[number] ||
            other->level != step->level || other->span.buffer != step->span.buffer ||
            other->span.first != step->span.first || other->span.count != step->span.count)
            continue;
        if (i < number)
            return 0;
        if (stream)
            fprintf(stream, "%s%u", n ? ", " : "", other->peer);
        n++;
    }
    return n;
}

/* One line of a box. */
static void show_line(const struct drawing *d, uint32_t number, FILE *stream)
{
    const struct br_step *step = br_matching_step(&d->m, number);
    char text[SPAN_TEXT];

    if (step->kind == BR_STEP_RECV ||
        (step->kind == BR_STEP_SEND && show_peers(d, number, NULL) == 0))
        return;
    fprintf(stream, "<tr><td align=\"left\"><font color=\"%s\">",
            step->kind == BR_STEP_SEND ? show_colour_of(step->level) : "#000000");
    span_text(step->span, text);
    if (step->kind == BR_STEP_SEND) {
        fprintf(stream, "%s &rarr; ", text);
        show_peers(d, number, stream);
    } else if (step->kind == BR_STEP_COPY) {
        fprintf(stream, "%s = ", text);
        fputs(span_text(d->m.schedules[d->m.rank[number]]->sources[step->first_source].span, text),
              stream);
    } else {
        fprintf(stream, "%s %s", step->flags & BR_STEP_FINAL ? "<b>&Sigma;</b>" : "&Sigma;", text);
    }
    fprintf(stream, "</font></td></tr>");
}

static bool in_box(const struct drawing *d, uint32_t number, uint32_t row)
{
    return d->rounds[number] == row && br_matching_step(&d->m, number)->kind != BR_STEP_RECV;
}

/* What is computed, then what is sent; a dot when there is nothing. The first box names the
 * rank. */
static void show_box(const struct drawing *d, uint32_t rank, uint32_t row, FILE *stream)
{
    uint32_t first = d->m.base[rank], end = d->m.base[rank + 1], lines = row == 0;

    for (uint32_t i = first; i < end; i++)
        lines += in_box(d, i, row);
    fprintf(stream, "    r%uw%u [", rank, row);
    fputs(lines ? "label=<<table border=\"0\" cellspacing=\"0\" cellpadding=\"1\">" : "shape=point",
          stream);
    if (row == 0)
        fprintf(stream, "<tr><td><font point-size=\"13\">rank %u</font></td></tr>", rank);
    for (int sends = 0; sends < 2; sends++) {
        for (uint32_t i = first; i < end; i++) {
            if (in_box(d, i, row) && (br_matching_step(&d->m, i)->kind == BR_STEP_SEND) == sends)
                show_line(d, i, stream);
        }
    }
    fputs(lines ? "</table>>];\n" : "];\n", stream);
}

static void show_message(const struct drawing *d, uint32_t number, FILE *stream)
{
    const struct br_step *step = br_matching_step(&d->m, number);
    uint32_t width = 1, from = d->m.rank[number], round = d->rounds[number];

    for (uint32_t count = step->span.count; count > 1; count /= 2)
        width++;
    fprintf(stream,
            "  r%uw%u:s -> r%uw%u:n [color=\"%s\", penwidth=%u, constraint=false, tooltip=\"%u %s "
            "from %u to "
            "%u\"];\n",
            from, round, step->peer, round + 1, show_colour_of(step->level), width,
            step->span.count, step->span.count == 1 ? "piece" : "pieces", from, step->peer);
}

/* The title, and what the colours mean. */
static void show_legend(const struct drawing *d, FILE *stream)
{
    const struct br_schedule *s = d->m.schedules[0];
    bool seen[256] = {false};

    fprintf(stream, "  label=<<b>%s</b>, %u ranks, %u %s a block, %u %s",
            br_collective_name(s->collective), s->n, s->pieces, s->pieces == 1 ? "piece" : "pieces",
            d->n_rounds - 1, d->n_rounds == 2 ? "round" : "rounds");
    for (uint32_t i = 0; i < d->m.n_steps; i++) {
        if (br_matching_step(&d->m, i)->kind == BR_STEP_SEND)
            seen[br_matching_step(&d->m, i)->level] = true;
    }
    for (unsigned level = 0; level < BR_LEVEL_ANY; level++) {
        if (seen[level])
            fprintf(stream, " &nbsp; <font color=\"%s\">&#9632; level %u</font>",
                    show_colour_of((uint8_t)level), level);
    }
    fprintf(stream, ">;\n");
}

/* The boxes of a rank below each other. No clusters: dot would mix the columns up for fewer
 * crossings. */
static void show_column(const struct drawing *d, uint32_t rank, FILE *stream)
{
    fprintf(stream, "  {\n    node [group=%u];\n", rank);
    for (uint32_t row = 0; row < d->n_rounds; row++)
        show_box(d, rank, row, stream);
    fprintf(stream, "    edge [color=\"#d5dbe1\", penwidth=2, arrowhead=none, weight=100];\n   ");
    for (uint32_t row = 0; row < d->n_rounds; row++)
        fprintf(stream, "%s r%uw%u", row == 0 ? "" : " ->", rank, row);
    fprintf(stream, ";\n  }\n");
}

/* The boxes of a row beside each other; the first row says in which order. */
static void show_row(const struct drawing *d, uint32_t row, FILE *stream)
{
    fprintf(stream, "  {rank=same; edge [style=invis];");
    for (uint32_t rank = 0; rank < d->m.n; rank++)
        fprintf(stream, "%s r%uw%u", rank == 0 ? "" : row == 0 ? " ->" : ";", rank, row);
    fprintf(stream, "}\n");
}

static void show_drawing(const struct drawing *d, FILE *stream)
{
    fprintf(stream,
            "digraph \"%s\" {\n  splines=line; nodesep=0.2; ranksep=1.1; labelloc=t; "
            "outputorder=edgesfirst;\n"
            "  fontname=\"sans-serif\"; fontsize=18;\n"
            "  node [shape=box, style=\"rounded,filled\", fillcolor=white, color=\"#999999\", "
            "fontname=\"sans-serif\", fontsize=10, margin=0.04];\n  edge [arrowsize=0.6];\n",
            br_collective_name(d->m.schedules[0]->collective));
    show_legend(d, stream);
    for (uint32_t rank = 0; rank < d->m.n; rank++)
        show_column(d, rank, stream);
    for (uint32_t row = 0; row < d->n_rounds; row++)
        show_row(d, row, stream);
    for (uint32_t i = 0; i < d->m.n_steps; i++) {
        if (br_matching_step(&d->m, i)->kind == BR_STEP_SEND)
            show_message(d, i, stream);
    }
    fprintf(stream, "}\n");
}

int br_show_dot(const struct br_schedule *const *schedules, FILE *stream)
{
    struct drawing d = {.n_rounds = 1};
    int rc = br_matching_init(&d.m, schedules);

    if (rc == 0 && !(d.rounds = calloc((size_t)d.m.n_steps + 1, sizeof *d.rounds)))
        rc = br_error(ENOMEM, "no memory to draw the schedules of %u ranks", schedules[0]->n);
    if (rc == 0) {
        find_rounds(&d);
        for (uint32_t i = 0; i < d.m.n_steps; i++)
            d.n_rounds = row_after(&d, i) >= d.n_rounds ? row_after(&d, i) + 1 : d.n_rounds;
        show_drawing(&d, stream);
        if (fflush(stream) != 0 || ferror(stream))
            rc = br_error(EIO, "cannot write the drawing of a schedule");
    }
    free(d.rounds);
    br_matching_destroy(&d.m);
    return rc;
}
