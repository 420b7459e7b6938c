/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of `braid top` from snapshots that are written down. */
#include "tests/says.h"
#include "tools/top/top.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S 1000000000ull

struct scene {
    struct braid_peer_stats peers[2][1];
    struct braid_rail_stats rails[2][2];
    struct br_snapshot at[2]; /* rank 3, then and 2 s later */
    char *text;
};

static void set_up(struct scene *s)
{
    memset(s, 0, sizeof *s);
    for (int i = 0; i < 2; i++) {
        s->at[i] = (struct br_snapshot){.job = "0badcafe",
                                        .rank = 3,
                                        .size = 4,
                                        .pid = 77,
                                        .n_peers = 1,
                                        .n_rails = 2,
                                        .peers = s->peers[i],
                                        .rails = s->rails[i]};
        s->peers[i][0].peer = 1;
        for (int k = 0; k < 2; k++)
            s->rails[i][k] =
                (struct braid_rail_stats){.peer = 1, .rail = k, .device = "tcp:eth0", .up = 1};
    }
    s->at[0].at = 10 * S;
    s->at[1].at = 12 * S;
    s->rails[1][0].tx_bytes = 600000000;
    s->rails[1][1].rx_bytes = 200000000;
    s->rails[1][1].up = 0;
    s->rails[1][1].failures = 1;
    s->rails[1][0].stalled_window_ns = S;
    s->rails[1][0].in_flight_bytes = 64000;
    s->rails[1][0].window_bytes = 128000;
    s->at[1].stats.tx_bytes = 600000000;
    s->at[1].stats.rx_bytes = 200000000;
    s->at[1].stats.operations = 40;
    s->at[1].stats.busy_ns = S / 2;
    s->at[1].stats.downgrade_gso = 1;
    s->peers[1][0] = (struct braid_peer_stats){
        .peer = 1, .queued_high = 1, .queued_normal = 20, .queued_low = 3, .ready_wait_ns = 3 * S};
}

static const char *print(struct scene *s, int n_before, int rows)
{
    size_t bytes;
    FILE *out;

    free(s->text);
    out = open_memstream(&s->text, &bytes);
    br_top_print(s->at, n_before, &s->at[1], 1, rows, out);
    fclose(out);
    return s->text;
}

static void has(const char *text, const char *expected)
{
    if (!strstr(text, expected))
        fail_msg("no '%s' in:\n%s", expected, text);
}

static void print__rates(void **state)
{
    struct scene s;
    const char *text;

    (void)state;
    set_up(&s);
    text = print(&s, 1, 0);
    has(text, "job 0badcafe: 1 of 4 ranks on this host\n");
    has(text, "rank 3 (process 77): 20 op/s, 0 under way, 0 failed; worker busy 25%, spins 0%, "
              "sleeps 0%; CPU 0%; "
              "for READY wait 1.5; downgrades: gso\n");
    has(text, "   3    1    0 tcp:eth0     up      300.0      0.0   75%    50%    0%     0%    "
              "1/20/3  64.0 "
              "kB   128 kB "
              "     0    0\n");
    has(text, "   3    1    1 tcp:eth0     DOWN      0.0    100.0   25% ");
    has(text, "      0    1\n");
    free(s.text);
}

/* A rank that was not there before, or is another process with that number, has no rates. */
static void print__first_sight(void **state)
{
    struct scene s;

    (void)state;
    set_up(&s);
    has(print(&s, 0, 0), "   3    1    0 tcp:eth0     up        0.0      0.0    0%     0% ");
    s.at[0].pid = 78;
    has(print(&s, 1, 0), "rank 3 (process 77): 0 op/s");
    free(s.text);
}

static void print__fits_the_terminal(void **state)
{
    struct scene s;
    int lines = 0;

    (void)state;
    set_up(&s);
    for (const char *c = print(&s, 1, 7); *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, 6);
    assert_says(s.text, "1 more|--once");
    free(s.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(print__rates),
        cmocka_unit_test(print__first_sight),
        cmocka_unit_test(print__fits_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
