/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "tools/testbed/draw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct br_drawing drawing_of(uint32_t n, uint32_t k, uint32_t hosts)
{
    struct br_drawing drawing = {.title = NULL};
    struct br_bcube cube;

    assert_int_equal(br_bcube_init(&cube, n, k), 0);
    assert_int_equal(br_cabling_init(&drawing.cabling, &cube, hosts, NULL), 0);
    return drawing;
}

static char *drawn(const struct br_drawing *drawing)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    assert_non_null(out);
    assert_int_equal(br_draw(drawing, out), 0);
    fclose(out);
    return text;
}

static size_t count(const char *text, const char *what)
{
    size_t found = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what))
        found++;
    return found;
}

struct box {
    int x, y, width, height;
};

static int gather_boxes(const char *svg, struct box *boxes, int max)
{
    int n = 0;

    for (const char *at = svg; (at = strstr(at, "<rect x=\"")) != NULL; at++) {
        struct box *box = &boxes[n++];

        assert_true(n <= max);
        assert_int_equal(sscanf(at, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"", &box->x,
                                &box->y, &box->width, &box->height),
                         4);
    }
    return n;
}

/* No box on another, none beyond the edge, and no line through a box: those begin and end at boxes
 * only. */
static void check_layout(const char *svg)
{
    enum { MAX = 4096 };
    struct box *boxes = calloc(MAX, sizeof *boxes);
    int n, width, height;

    assert_non_null(boxes);
    n = gather_boxes(svg, boxes, MAX);
    assert_int_equal(sscanf(strstr(svg, "viewBox"), "viewBox=\"0 0 %d %d\"", &width, &height), 2);
    for (int i = 0; i < n; i++) {
        assert_true(boxes[i].x >= 0 && boxes[i].y >= 0);
        assert_true(boxes[i].x + boxes[i].width <= width && boxes[i].y + boxes[i].height <= height);
        for (int j = 0; j < i; j++)
            if (boxes[i].x < boxes[j].x + boxes[j].width &&
                boxes[j].x < boxes[i].x + boxes[i].width &&
                boxes[i].y < boxes[j].y + boxes[j].height &&
                boxes[j].y < boxes[i].y + boxes[i].height)
                fail_msg("box %d,%d on box %d,%d", boxes[i].x, boxes[i].y, boxes[j].x, boxes[j].y);
    }
    for (const char *at = svg; (at = strstr(at, "<path d=\"M")) != NULL; at++) {
        int x, y, to_x, to_y;

        if (sscanf(at, "<path d=\"M%d %dL%d %d", &x, &y, &to_x, &to_y) != 4) {
            bool across = at[strcspn(at, "HV")] == 'H';
            int to;

            assert_int_equal(
                sscanf(at, across ? "<path d=\"M%d %dH%d" : "<path d=\"M%d %dV%d", &x, &y, &to), 3);
            to_x = across ? to : x;
            to_y = across ? y : to;
        }
        for (int i = 0; i < n; i++)
            if (x < boxes[i].x + boxes[i].width && to_x > boxes[i].x &&
                y < boxes[i].y + boxes[i].height && to_y > boxes[i].y)
                fail_msg("line %d,%d-%d,%d through the box at %d,%d", x, y, to_x, to_y, boxes[i].x,
                         boxes[i].y);
    }
    free(boxes);
}

static void draw__nothing_overlaps(void **state)
{
    static const uint32_t shapes[][3] = {{3, 2, 0},  {2, 1, 0}, {8, 1, 0},  {8, 1, 3}, {4, 2, 0},
                                         {3, 3, 0},  {2, 5, 0}, {4, 3, 0},  {3, 2, 4}, {3, 3, 7},
                                         {2, 6, 13}, {4, 3, 2}, {3, 4, 80}, {16, 2, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct br_drawing drawing = drawing_of(shapes[i][0], shapes[i][1], shapes[i][2]);
        char *svg = drawn(&drawing);

        check_layout(svg);
        free(svg);
    }
}

/* Every host, cable and switch is there once; of a partial cube only those that are needed. */
static void draw__everything_is_there(void **state)
{
    struct br_drawing drawing = drawing_of(3, 2, 0);
    char *svg = drawn(&drawing);

    (void)state;
    assert_int_equal(count(svg, "<circle"), 2 * 18);
    assert_int_equal(count(svg, "<rect x="), 9 + 6 + 2);
    assert_int_equal(count(svg, ">h12</text>"), 1);
    assert_int_equal(count(svg, ">s1-2</text>"), 1);
    assert_int_equal(count(svg, "9 hosts, 6 switches of 3 ports, 18 cables"), 1);
    assert_int_equal(count(svg, "h12 eth1, 10.1.2.2/24\nlevel 1, switch s1-2, port 1"), 1);
    assert_int_equal(count(svg, "<g"), count(svg, "</g>"));
    assert_int_equal(count(svg, "http"), 1); /* the name space: it is self-contained */
    free(svg);

    drawing = drawing_of(3, 2, 4);
    svg = drawn(&drawing);
    assert_int_equal(count(svg, "<circle"), 2 * 8);
    assert_int_equal(count(svg, ">h11</text>"), 0);
    assert_int_equal(count(svg, ">s0-2</text>"), 0);
    assert_int_equal(count(svg, "4 hosts, 5 switches of 3 ports, 8 cables"), 1);
    free(svg);
}

static void paint_host(void *user, uint32_t host, struct br_paint *paint)
{
    (void)user;
    if (host != 5)
        return;
    strcpy(paint->colour, "#aa0001");
    strcpy(paint->label, "<&\"'>");
    strcpy(paint->tooltip, "a < b\x01\n& c");
    paint->bold = paint->dashed = true;
}

static void paint_cable(void *user, uint32_t host, uint32_t level, struct br_paint *paint)
{
    ++*(int *)user;
    if (host == 2 && level == 1)
        strcpy(paint->colour, "#aa0002");
}

static void paint_switch(void *user, uint32_t level, uint32_t index, struct br_paint *paint)
{
    (void)user;
    if (level == 1 && index == 2) {
        strcpy(paint->colour, "#aa0003");
        strcpy(paint->label, "a-switch-with-a-very-long-name-\xc3\xa4\xc3\xb6");
    }
}

static void draw__painted(void **state)
{
    static const struct br_draw_key keys[] = {{"#aa0001", "bad & worse"}, {"#00ff00", "fine"}};
    struct br_drawing drawing = drawing_of(3, 2, 0);
    int cables = 0;

    (void)state;
    drawing.host = paint_host;
    drawing.cable = paint_cable;
    drawing.switch_ = paint_switch;
    drawing.user = &cables;
    drawing.title = "<Rack>";
    drawing.keys = keys;
    drawing.n_keys = 2;
    char *svg = drawn(&drawing);
    assert_int_equal(cables, 18);
    assert_int_equal(count(svg, "#aa0001"), 2);
    assert_int_equal(count(svg, "stroke=\"#aa0002\""), 1);
    assert_int_equal(count(svg, "#aa0003"), 1);
    assert_int_equal(count(svg, ">&lt;&amp;&quot;&#39;&gt;</text>"), 1);
    assert_int_equal(count(svg, "<title>a &lt; b\n&amp; c</title>"), 1);
    assert_int_equal(count(svg, "&lt;Rack&gt;"), 1);
    assert_int_equal(count(svg, "bad &amp; worse"), 1);
    assert_int_equal(count(svg, "level 0</text>"), 0);
    assert_int_equal(count(svg, ">a-switch..</text>"), 1);
    free(svg);
}

static void draw__bad(void **state)
{
    struct br_drawing drawing = drawing_of(3, 2, 0), large = drawing_of(16, 4, 0);
    FILE *out = fopen("/dev/full", "w");

    (void)state;
    assert_non_null(out);
    assert_int_equal(br_draw(&drawing, out), -EIO);
    assert_int_equal(br_draw(&large, out), -EFBIG);
    assert_non_null(strstr(br_error_message(), "4096"));
    fclose(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draw__nothing_overlaps),
        cmocka_unit_test(draw__everything_is_there),
        cmocka_unit_test(draw__painted),
        cmocka_unit_test(draw__bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
