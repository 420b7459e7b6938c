/* SPDX-License-Identifier: BSD-3-Clause */
/* Two hosts (network namespaces) with two cables between them: packets of one vanish, a link goes
 * down, and comes back. The hosts are h0 and h1, the NICs r0 and r1 on both, the addresses
 * 10.77.NIC.(1 + HOST). */
#include "job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rank.h"

static struct job job;

static int shell(const char *line)
{
    return system(line);
}

/* The kernel takes its time to call a link up, the more so when it has been down a moment ago. */
static int wait_for_links(void)
{
    return shell("for i in $(seq 100); do "
                 "[ \"$(for h in 0 1; do ip -n h$h -o link; done | grep -c ' r[01]@.*state UP')\" "
                 "= 4 ] && exit 0; "
                 "sleep 0.05; done; ip -n h0 link; exit 1");
}

static int setup(void **state)
{
    (void)state;
    return shell(
        "for h in 0 1; do ip netns add h$h && ip -n h$h link set lo up; done; "
        "for r in 0 1; do ip link add r$r netns h0 type veth peer name r$r netns h1; "
        "for h in 0 1; do ip -n h$h addr add 10.77.$r.$((h + 1))/24 dev r$r && "
        "ip -n h$h link set r$r address 02:00:00:00:0$r:0$h up && "
        "tc -n h$h qdisc add dev r$r root tbf rate 200mbit burst 128kb latency 50ms; done; done");
}

/* As a firewall that drops without a word: nobody has the address to which the frames go. */
static void block(int nic, bool blocked)
{
    char line[256];

    snprintf(line, sizeof line,
             "for h in 0 1; do ip -n h$h neigh replace 10.77.%d.$((2 - h)) lladdr "
             "02:00:00:00:0%d:%s$((1 - h)) "
             "nud permanent dev r%d; done",
             nic, nic, blocked ? "9" : "0", nic);
    assert_int_equal(shell(line), 0);
}

/* Behind each case, where it fails in between, too: the next one begins with all cables. */
static int mend(void **state)
{
    (void)state;
    assert_int_equal(shell("ip -n h1 link set r0 up && ip -n h0 link set r1 mtu 1500"), 0);
    block(1, false);
    return 0;
}

static void start(const char *backend, const char *devices)
{
    assert_int_equal(wait_for_links(), 0);
    job_start(&job,
              "exec $run -n 2 --backend %s -- sh -c 'MASTER_ADDR=10.77.0.1 BRAID_DEVICES=%s "
              "BRAID_PEER_TIMEOUT=6 "
              "exec ip netns exec h$RANK $self rank 300000 250000'",
              backend, devices);
    job_ready(&job, 2);
}

static void end_well(void)
{
    job_signal(&job, 0, RANK_END);
    if (job_end(&job))
        fail_msg("the job has failed:\n%s", job.text);
}

/* Both rails of both ranks carry data since the rails were last said. */
static void both_carry(void)
{
    for (int r = 0; r < 2; r++) {
        char rails[32], carry[40];
        int said = 0;

        snprintf(rails, sizeof rails, "[%d] rails ", r);
        for (const char *at = job.text; (at = strstr(at, rails)); at++)
            said++;
        snprintf(carry, sizeof carry, "[%d] carry %d\n", r, said);
        job_says(&job, carry, 1);
    }
}

/* Both ranks see the rail go and come; what they send meanwhile is right, and afterwards both rails
 * carry. */
static void rails__one_of_two_is_silent_or_down(void **state)
{
    start(*state, "r0,r1");
    block(1, true);
    job_says(&job, "rails 1\n", 2);
    job_must_have(&job, "level 1 (device r1)|is lost");
    job_must_have(&job, "slices");
    block(1, false);
    job_says(&job, "rails 3\n", 4);
    assert_int_equal(shell("ip -n h1 link set r0 down"), 0);
    job_says(&job, "rails 2\n", 2);
    assert_int_equal(shell("ip -n h1 link set r0 up"), 0);
    job_says(&job, "rails 3\n", 6);
    both_carry();
    end_well();
}

/* A path carries shorter packets than when the rail was made; what is too long for it is dropped
 * without a word one way. The rail is lost, and made anew with packets that fit. */
static void rails__path_becomes_narrow(void **state)
{
    start(*state, "r0,r1");
    assert_int_equal(shell("ip -n h0 link set r1 mtu 1200"), 0);
    job_says(&job, "(device r1) is lost", 2);
    job_says(&job, "rails 3\n", 4);
    both_carry();
    end_well();
}

static void rails__the_only_one_is_silent(void **state)
{
    char line[512];

    start(*state, "r1");
    block(1, true);
    assert_int_equal(job_end(&job), RANK_FAILED);
    for (int r = 0; r < 2; r++) {
        job_line(&job, r, "error ", line, sizeof line);
        if (!strstr(line, r ? "rank 0 is lost" : "rank 1 is lost") ||
            !strstr(line, "level 0, device r1"))
            fail_msg("rank %d does not name the link: %s", r, line);
    }
}

#define RAILS_CASE(name, backend)                                                                  \
    cmocka_unit_test_prestate_setup_teardown(name, NULL, mend, (void *)(backend))

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        RAILS_CASE(rails__one_of_two_is_silent_or_down, "tcp"),
        RAILS_CASE(rails__one_of_two_is_silent_or_down, "udp"),
        RAILS_CASE(rails__path_becomes_narrow, "udp"),
        RAILS_CASE(rails__the_only_one_is_silent, "tcp"),
        RAILS_CASE(rails__the_only_one_is_silent, "udp"),
    };

    if (argc >= 2 && !strcmp(argv[1], "rank"))
        return rank_main(argc - 2, argv + 2);
    job_isolate();
    if (shell("ip netns list > /dev/null 2>&1 && tc -V > /dev/null 2>&1")) {
        puts("skipped: there is no ip or tc (package iproute2)");
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, NULL);
}
