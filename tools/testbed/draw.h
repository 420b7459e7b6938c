/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A drawing of a BCube as SVG: hosts in a grid, the switches of each level in the colour of the
 * level, a line for every cable. One self-contained <svg> element without a prolog, a file of its
 * own or a part of an HTML page. Whoever draws may give each host, switch and cable a colour and a
 * tooltip (results of a check, for instance).
 */
#ifndef BR_TOOLS_TESTBED_DRAW_H
#define BR_TOOLS_TESTBED_DRAW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bcube/cabling.h"

#define BR_DRAW_HOSTS_MAX 4096 /* a drawing of more is not readable */

/* Filled with the defaults before a callback may change it. Texts are escaped by the drawing. */
struct br_paint {
    char colour[8];    /* "#rrggbb": fill of a host or switch, line of a cable */
    char label[64];    /* of a host or switch; cut to what fits */
    char tooltip[512]; /* shown by browsers when pointed at; lines end with \n */
    bool bold;         /* a thick cable, a thick edge of a host or switch */
    bool dashed;       /* something that is not there */
};

struct br_draw_key {
    const char *colour, *label;
};

struct br_drawing {
    /* hosts from cabling.hosts on are left out, and switches that only they have */
    struct br_cabling cabling;
    const char *title;    /* NULL: "BCube(n,k)" */
    const char *subtitle; /* NULL: numbers of hosts, switches, cables */
    /* What the colours mean, in the lower left; NULL: the levels. */
    const struct br_draw_key *keys;
    int n_keys;
    /* Each may be NULL. */
    void (*host)(void *user, uint32_t host, struct br_paint *paint);
    void (*switch_)(void *user, uint32_t level, uint32_t index, struct br_paint *paint);
    void (*cable)(void *user, uint32_t host, uint32_t level, struct br_paint *paint);
    void *user;
};

/* 0; -EFBIG with a message: more than BR_DRAW_HOSTS_MAX hosts; -EIO with a message. */
int br_draw(const struct br_drawing *drawing, FILE *out);

/* The colour of a level, "#rrggbb"; readable on white, distinct for those who confuse red and green
 * for up to 8 levels. */
const char *br_draw_level_colour(uint32_t level);

/* Writes text with & < > " ' escaped, for SVG and HTML. */
void br_draw_escape(const char *text, FILE *out);

#endif
