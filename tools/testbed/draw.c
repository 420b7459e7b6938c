/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 1. Hosts stand in a grid: the lower half of the digits counts the columns, the upper half the
 *    rows. So all hosts of a switch of a lower level are in one row, those of an upper level in one
 *    column.
 * 2. A switch is a box at the beginning of a lane, from which its bus runs along the hosts. Lanes
 *    of lower levels run in the gap above each row, those of upper levels in the gap left of each
 *    column. Switches of one level whose hosts do not interleave share a lane: level l of a gap
 *    needs n^l lanes.
 * 3. Nothing overlaps, whatever the shape: a host's upper edge has room for a box and, right of it,
 *    for a drop for each level; its left edge has room for a box and, below it, for a tap for each
 *    level. Boxes stay within those rooms, lines only cross at right angles.
 * 4. Rejected: all hosts in one line and levels of switches above, as papers draw it (from 27 hosts
 *    on a web that nobody can follow).
 */
#include "tools/testbed/draw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define MARGIN  24
#define BOX     62  /* long side of a switch */
#define BOX_LOW 18  /* short side of a switch */
#define PITCH   24  /* from lane to lane */
#define STEP    11  /* from one cable's end to the next, at a host */
#define LETTER  6.4 /* mean width of a letter of 10 pixels, as fonts differ rather too wide */

struct canvas {
    const struct br_drawing *drawing;
    struct br_bcube cube;
    FILE *out;
    uint32_t low;           /* levels below it run along rows, the others along columns */
    uint32_t columns, rows; /* of the grid; rows that have hosts */
    int gap_width, gap_height, host_width, host_height;
    int left, top; /* of the grid */
    bool upright;  /* switches at the left of hosts stand as those above them do */
};

static const char *const colours[] = {
    "#0072b2", "#d55e00", "#009e73", "#b0458f", "#6a51a3", "#8c6d00", "#2f9bd6", "#4d4d4d",
    "#1b4f72", "#a04000", "#0b5345", "#76448a", "#4a235a", "#7d6608", "#21618c", "#17202a"};

const char *br_draw_level_colour(uint32_t level)
{
    return colours[level % (sizeof colours / sizeof *colours)];
}

void br_draw_escape(const char *text, FILE *out)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            if ((unsigned char)*text >= ' ' || *text == '\n')
                fputc(*text, out);
        }
    }
}

/* The text, cut to a width, the cut marked. Never within a letter of UTF-8. */
static void write_cut(const char *text, double width, double letter, FILE *out)
{
    char copy[sizeof((struct br_paint *)NULL)->label + 4];
    size_t fits = (size_t)(width / letter), letters = 0, end = 0;
    for (const char *at = text; *at; at++)
        letters += ((unsigned char)*at & 0xc0) != 0x80;
    snprintf(copy, sizeof copy, "%s", text);
    if (letters > fits) {
        for (size_t seen = 0; copy[end] && seen < fits; end++)
            seen += ((unsigned char)copy[end + 1] & 0xc0) != 0x80;
        snprintf(copy + (end ? end - 1 : 0), 5, "..");
    }
    br_draw_escape(copy, out);
}

static void write_tooltip(const struct br_paint *paint, FILE *out)
{
    if (!paint->tooltip[0])
        return;
    fputs("<title>", out);
    br_draw_escape(paint->tooltip, out);
    fputs("</title>", out);
}

/* Black or white, whichever reads better on a colour "#rrggbb". */
static const char *ink_on(const char *colour)
{
    unsigned long rgb = strtoul(colour + 1, NULL, 16);
    unsigned long light = 299 * (rgb >> 16 & 0xff) + 587 * (rgb >> 8 & 0xff) + 114 * (rgb & 0xff);
    return light > 150000 ? "#000000" : "#ffffff";
}

static uint32_t draw_power(const struct canvas *canvas, uint32_t exponent)
{
    return br_bcube_power(&canvas->cube, exponent);
}

/* Lanes that the levels below this one of the same gap take. */
static uint32_t lanes_before(const struct canvas *canvas, uint32_t level)
{
    uint32_t first = level < canvas->low ? 0 : canvas->low, lanes = 0;
    for (uint32_t l = first; l < level; l++)
        lanes += draw_power(canvas, l - first);
    return lanes;
}

static int host_x(const struct canvas *canvas, uint32_t host)
{
    int column = (int)(host % canvas->columns);
    return canvas->left + column * (canvas->gap_width + canvas->host_width) + canvas->gap_width;
}

static int host_y(const struct canvas *canvas, uint32_t host)
{
    int row = (int)(host / canvas->columns);
    return canvas->top + row * (canvas->gap_height + canvas->host_height) + canvas->gap_height;
}

/* Where the cable of a level ends at its host. */
static int end_x(const struct canvas *canvas, uint32_t host, uint32_t level)
{
    return host_x(canvas, host) + canvas->host_width - STEP * (int)(canvas->low - level);
}

static int end_y(const struct canvas *canvas, uint32_t host, uint32_t level)
{
    return host_y(canvas, host) + canvas->host_height - STEP * (int)(canvas->cube.k - level);
}

/* The lane of a switch: its y for a lower level, its x for an upper one. */
static int lane_of(const struct canvas *canvas, uint32_t level, uint32_t index)
{
    uint32_t first = br_bcube_switch_host(&canvas->cube, level, index, 0);
    if (level < canvas->low)
        return host_y(canvas, first) - 26 -
               PITCH * (int)(lanes_before(canvas, level) + index % draw_power(canvas, level));
    uint32_t lane = lanes_before(canvas, level) + index / draw_power(canvas, canvas->low) %
                                                      draw_power(canvas, level - canvas->low);
    return host_x(canvas, first) - (canvas->upright ? 24 + BOX / 2 : 26) - PITCH * (int)lane;
}

/* How many hosts of a switch are there: those of its first ports. */
static uint32_t ports_used(const struct canvas *canvas, uint32_t level, uint32_t index)
{
    uint32_t used = 0;
    while (used < canvas->cube.n &&
           br_bcube_switch_host(&canvas->cube, level, index, used) < canvas->drawing->cabling.hosts)
        used++;
    return used;
}

static void draw_cable(const struct canvas *canvas, uint32_t host, uint32_t level)
{
    const struct br_drawing *drawing = canvas->drawing;
    char name[BR_HOST_NAME], other[BR_HOST_NAME], address[BR_ADDRESS_TEXT];
    struct br_paint paint = {.bold = false};
    struct br_cable cable;
    br_cabling_cable(&drawing->cabling, host, level, &cable);
    snprintf(paint.colour, sizeof paint.colour, "%s", br_draw_level_colour(level));
    snprintf(paint.tooltip, sizeof paint.tooltip, "%s %s, %s\nlevel %u, switch %s, port %u",
             br_cabling_host_name(&canvas->cube, host, name), cable.nic,
             br_address_text(cable.address, cable.bits, address), level,
             br_cabling_switch_name(level, cable.index, other), cable.port);
    if (drawing->cable)
        drawing->cable(drawing->user, host, level, &paint);
    bool low = level < canvas->low;
    int lane = lane_of(canvas, level, cable.index);
    int x = low ? end_x(canvas, host, level) : host_x(canvas, host);
    int y = low ? host_y(canvas, host) : end_y(canvas, host, level);
    int from_x = low ? x : lane, from_y = low ? lane : y;
    fputs("<g>", canvas->out);
    write_tooltip(&paint, canvas->out);
    /* The first line is not seen; it makes the cable easier to point at. */
    fprintf(
        canvas->out,
        "<path d=\"M%d %dL%d %d\" stroke=\"#fff\" stroke-opacity=\"0\" stroke-width=\"9\"/>"
        "<path d=\"M%d %dL%d %d\" stroke=\"%s\" stroke-width=\"%s\"%s/>"
        "<circle cx=\"%d\" cy=\"%d\" r=\"%s\" fill=\"%s\"/><circle cx=\"%d\" cy=\"%d\" r=\"%s\" "
        "fill=\"%s\"/></g>\n",
        from_x, from_y, x, y, from_x, from_y, x, y, paint.colour, paint.bold ? "5" : "2",
        paint.dashed ? " stroke-dasharray=\"4 3\"" : "", from_x, from_y, paint.bold ? "4.5" : "3",
        paint.colour, x, y, paint.bold ? "4.5" : "3", paint.colour);
}

/* Only the line along which a switch reaches its hosts. */
static void draw_bus(const struct canvas *canvas, uint32_t level, uint32_t index)
{
    uint32_t first = br_bcube_switch_host(&canvas->cube, level, index, 0);
    uint32_t last =
        br_bcube_switch_host(&canvas->cube, level, index, ports_used(canvas, level, index) - 1);
    int lane = lane_of(canvas, level, index);
    if (level < canvas->low)
        fprintf(canvas->out, "<path d=\"M%d %dH%d\" stroke=\"%s\" stroke-width=\"2\"/>\n",
                host_x(canvas, first) + BOX, lane, end_x(canvas, last, level),
                br_draw_level_colour(level));
    else
        fprintf(canvas->out, "<path d=\"M%d %dV%d\" stroke=\"%s\" stroke-width=\"2\"/>\n", lane,
                host_y(canvas, first) + (canvas->upright ? BOX_LOW : BOX),
                end_y(canvas, last, level), br_draw_level_colour(level));
}

static void draw_switch(const struct canvas *canvas, uint32_t level, uint32_t index)
{
    const struct br_drawing *drawing = canvas->drawing;
    uint32_t first = br_bcube_switch_host(&canvas->cube, level, index, 0);
    char subnet[BR_ADDRESS_TEXT];
    struct br_paint paint = {.bold = false};
    br_cabling_switch_name(level, index, paint.label);
    snprintf(paint.colour, sizeof paint.colour, "%s", br_draw_level_colour(level));
    snprintf(paint.tooltip, sizeof paint.tooltip, "switch %s: level %u, index %u\n%s", paint.label,
             level, index,
             br_address_text(br_cabling_subnet(&drawing->cabling, level, index),
                             drawing->cabling.subnet_bits, subnet));
    if (drawing->switch_)
        drawing->switch_(drawing->user, level, index, &paint);
    bool low = level < canvas->low, turned = !low && !canvas->upright;
    int lane = lane_of(canvas, level, index), width = turned ? BOX_LOW : BOX,
        height = turned ? BOX : BOX_LOW;
    int x = low ? host_x(canvas, first) : lane - width / 2,
        y = low ? lane - height / 2 : host_y(canvas, first);
    int centre_x = x + width / 2, centre_y = y + height / 2;
    fputs("<g>", canvas->out);
    write_tooltip(&paint, canvas->out);
    fprintf(
        canvas->out,
        "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" stroke=\"#222\" "
        "stroke-width=\"%s\"%s/>"
        "<text x=\"%d\" y=\"%d\" fill=\"%s\" font-size=\"10\"",
        x, y, width, height, paint.colour, paint.bold ? "3" : "1",
        paint.dashed ? " stroke-dasharray=\"4 3\"" : "", centre_x, centre_y + 4,
        ink_on(paint.colour));
    if (turned)
        fprintf(canvas->out, " transform=\"rotate(-90 %d %d)\"", centre_x, centre_y);
    fputc('>', canvas->out);
    write_cut(paint.label, BOX - 4, LETTER, canvas->out);
    fputs("</text></g>\n", canvas->out);
}

static void default_host(const struct br_drawing *drawing, uint32_t host, struct br_paint *paint)
{
    char text[BR_BCUBE_TEXT], address[BR_ADDRESS_TEXT], name[BR_HOST_NAME];
    size_t room = sizeof paint->tooltip;
    size_t used = (size_t)snprintf(paint->tooltip, room, "host %u %s", host,
                                   br_bcube_text(&drawing->cabling.cube, host, text));
    snprintf(paint->colour, sizeof paint->colour, "#f4f4f4");
    br_cabling_host_name(&drawing->cabling.cube, host, paint->label);
    for (uint32_t level = 0; level < drawing->cabling.cube.k && used < room; level++) {
        struct br_cable cable;
        br_cabling_cable(&drawing->cabling, host, level, &cable);
        used += (size_t)snprintf(paint->tooltip + used, room - used, "\n%s %s to %s port %u",
                                 cable.nic, br_address_text(cable.address, cable.bits, address),
                                 br_cabling_switch_name(level, cable.index, name), cable.port);
    }
}

static void draw_host(const struct canvas *canvas, uint32_t host)
{
    const struct br_drawing *drawing = canvas->drawing;
    char text[BR_BCUBE_TEXT];
    struct br_paint paint = {.bold = false};
    default_host(drawing, host, &paint);
    if (drawing->host)
        drawing->host(drawing->user, host, &paint);
    int x = host_x(canvas, host), y = host_y(canvas, host), room = canvas->host_width - 12;
    int centre_x = x + canvas->host_width / 2, centre_y = y + canvas->host_height / 2;
    fputs("<g>", canvas->out);
    write_tooltip(&paint, canvas->out);
    fprintf(
        canvas->out,
        "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"%s\" stroke=\"#222\" "
        "stroke-width=\"%s\"%s/><text x=\"%d\" y=\"%d\" fill=\"%s\" font-size=\"12\" "
        "font-weight=\"bold\">",
        x, y, canvas->host_width, canvas->host_height, paint.colour, paint.bold ? "3" : "1.5",
        paint.dashed ? " stroke-dasharray=\"4 3\"" : "", centre_x, centre_y - 2,
        ink_on(paint.colour));
    write_cut(paint.label, room, LETTER * 1.25, canvas->out);
    fprintf(canvas->out, "</text><text x=\"%d\" y=\"%d\" fill=\"%s\" font-size=\"10\">", centre_x,
            centre_y + 13, ink_on(paint.colour));
    write_cut(br_bcube_text(&canvas->cube, host, text), room, LETTER, canvas->out);
    fputs("</text></g>\n", canvas->out);
}

/* The keys in lines of at most `width`; only measured when `draw` is false. Returns the y below
 * them. */
static int draw_keys(const struct canvas *canvas, int y, int width, bool draw)
{
    const struct br_drawing *drawing = canvas->drawing;
    int n = drawing->keys ? drawing->n_keys : (int)canvas->cube.k, x = MARGIN;
    for (int i = 0; i < n; i++) {
        char text[64];
        const char *colour =
            drawing->keys ? drawing->keys[i].colour : br_draw_level_colour((uint32_t)i);
        snprintf(text, sizeof text, "level %d", i);
        const char *label = drawing->keys ? drawing->keys[i].label : text;
        int needed = 22 + (int)((double)strlen(label) * LETTER * 1.1) + 18;
        if (x > MARGIN && x + needed > width - MARGIN)
            x = MARGIN, y += 22;
        if (draw) {
            fprintf(canvas->out,
                    "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"14\" rx=\"3\" fill=\"%s\" "
                    "stroke=\"#222\"/>"
                    "<text x=\"%d\" y=\"%d\" font-size=\"11\" text-anchor=\"start\">",
                    x, y - 11, colour, x + 20, y);
            br_draw_escape(label, canvas->out);
            fputs("</text>\n", canvas->out);
        }
        x += needed;
    }
    return y;
}

static int draw_lay_out(struct canvas *canvas, const struct br_drawing *drawing, FILE *out)
{
    const struct br_bcube *cube = &drawing->cabling.cube;
    uint32_t hosts = drawing->cabling.hosts;
    *canvas =
        (struct canvas){.drawing = drawing, .cube = *cube, .out = out, .low = (cube->k + 1) / 2};
    if (hosts > BR_DRAW_HOSTS_MAX)
        return br_error(EFBIG, "a drawing of %u hosts could not be read: it may have at most %d",
                        hosts, BR_DRAW_HOSTS_MAX);
    canvas->columns = draw_power(canvas, canvas->low);
    canvas->rows = (hosts + canvas->columns - 1) / canvas->columns;
    if (hosts < canvas->columns)
        canvas->columns = hosts; /* one row */
    int across =
        (int)lanes_before(canvas, canvas->low - 1) + (int)draw_power(canvas, canvas->low - 1);
    int upper = (int)(cube->k - canvas->low);
    int down = upper ? (int)(lanes_before(canvas, cube->k - 1) +
                             draw_power(canvas, cube->k - 1 - canvas->low))
                     : 0;
    canvas->upright = down == 1;
    canvas->gap_width = !down ? 20 : canvas->upright ? BOX + 48 : 36 + PITCH * down;
    canvas->gap_height = 26 + PITCH * across;
    canvas->host_width = BOX + 6 + STEP * (int)(canvas->low + 1);
    canvas->host_height = (canvas->upright || !down ? BOX_LOW + 14 : BOX) + 6 + STEP * (upper + 1);
    canvas->left = MARGIN - (down ? 8 : 20);
    canvas->top = MARGIN + 44;
    return 0;
}

static void draw_all(const struct canvas *canvas)
{
    const struct br_cabling *cabling = &canvas->drawing->cabling;
    uint32_t switches = draw_power(canvas, canvas->cube.k - 1);
    for (uint32_t level = 0; level < canvas->cube.k; level++)
        for (uint32_t index = 0; index < switches; index++)
            if (br_cabling_switch_used(cabling, level, index))
                draw_bus(canvas, level, index);
    for (uint32_t host = 0; host < cabling->hosts; host++)
        draw_host(canvas, host);
    for (uint32_t level = 0; level < canvas->cube.k; level++)
        for (uint32_t host = 0; host < cabling->hosts; host++)
            draw_cable(canvas, host, level);
    for (uint32_t level = 0; level < canvas->cube.k; level++)
        for (uint32_t index = 0; index < switches; index++)
            if (br_cabling_switch_used(cabling, level, index))
                draw_switch(canvas, level, index);
}

static void draw_title(const struct canvas *canvas)
{
    const struct br_drawing *drawing = canvas->drawing;
    const struct br_cabling *cabling = &drawing->cabling;
    uint32_t switches = 0;
    char text[160];
    for (uint32_t level = 0; level < canvas->cube.k; level++)
        for (uint32_t index = 0; index < draw_power(canvas, canvas->cube.k - 1); index++)
            switches += br_cabling_switch_used(cabling, level, index);
    snprintf(text, sizeof text, "BCube(%u,%u)", canvas->cube.n, canvas->cube.k);
    fprintf(
        canvas->out,
        "<g text-anchor=\"start\"><text x=\"%d\" y=\"%d\" font-size=\"18\" font-weight=\"bold\">",
        MARGIN, MARGIN + 8);
    br_draw_escape(drawing->title ? drawing->title : text, canvas->out);
    snprintf(text, sizeof text, "%u hosts, %u %s of %u ports, %u cables", cabling->hosts, switches,
             switches == 1 ? "switch" : "switches", canvas->cube.n,
             cabling->hosts * canvas->cube.k);
    fprintf(canvas->out, "</text><text x=\"%d\" y=\"%d\" font-size=\"12\" fill=\"#444\">", MARGIN,
            MARGIN + 28);
    br_draw_escape(drawing->subtitle ? drawing->subtitle : text, canvas->out);
    fputs("</text></g>\n", canvas->out);
}

int br_draw(const struct br_drawing *drawing, FILE *out)
{
    struct canvas canvas;
    int rc = draw_lay_out(&canvas, drawing, out);
    if (rc)
        return rc;
    int width = canvas.left + (int)canvas.columns * (canvas.gap_width + canvas.host_width) + MARGIN;
    int bottom = canvas.top + (int)canvas.rows * (canvas.gap_height + canvas.host_height) + 36;
    if (width < 460)
        width = 460; /* for title and keys */
    int height = draw_keys(&canvas, bottom, width, false) + MARGIN - 4;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
            "%d\" "
            "role=\"img\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n"
            "<g font-family=\"DejaVu Sans,Verdana,Arial,sans-serif\" text-anchor=\"middle\" "
            "fill=\"none\">\n"
            "<g fill=\"#000000\">\n",
            width, height, width, height, width, height);
    draw_title(&canvas);
    draw_keys(&canvas, bottom, width, true);
    fputs("</g>\n", out);
    draw_all(&canvas);
    fputs("</g>\n</svg>\n", out);
    if (fflush(out) || ferror(out))
        return br_error(EIO, "cannot write the drawing: %s", strerror(errno));
    return 0;
}
