/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the links that are left allow, for faults.sh: lower bounds of the time of an all-reduce on a
 * BCube of which NICs and switches have failed. In units of the time to send the buffer once over
 * one link; latency is left out.
 *
 *     faults N,K ALGORITHM [nic HOST LEVEL | switch LEVEL INDEX]...
 *
 * Two numbers:
 * 1. for this algorithm's messages (any all-reduce's for auto, which plans around what is broken),
 *    over whatever routes: no host sends or receives faster than its working NICs, and all of them
 *    together carry each message over as many links as its shortest route has;
 * 2. for any all-reduce: each host's own input has to leave it and the result to reach it, and each
 *    element takes 2(N-1) messages in all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "bcube/route.h"
#include "collectives/schedule/algorithm.h"
#include "collectives/tuning/algorithm_config.h"
#include "tools/common/options.h"

struct network {
    struct br_bcube cube;
    struct br_failures failures;
    struct br_topology topology;
    double *out, *in; /* of each host: its messages */
    double hops;      /* all messages times the links of their routes */
};

static uint32_t nics(const struct network *net, uint32_t host)
{
    uint32_t n = 0;

    for (uint32_t level = 0; level < net->cube.k; level++)
        n += br_nic_works(&net->cube, &net->failures, host, level);
    return n;
}

static int add_message(struct network *net, uint32_t from, uint32_t to, double share)
{
    struct br_route route;
    int rc = br_route_around(&net->cube, from, to, &net->failures, &route);

    net->out[from] += share;
    net->in[to] += share;
    net->hops += share * route.hops;
    return rc;
}

static int add_rank(struct network *net, const struct br_algorithm_config *config, uint32_t rank)
{
    struct br_schedule_request request = {.collective = BR_ALLREDUCE,
                                          .algorithm = config->algorithm,
                                          .n = net->cube.hosts,
                                          .rank = rank,
                                          .shape = config->shape};
    struct br_schedule *schedule;
    int rc = br_algorithm_build(&request, &schedule);

    for (uint32_t i = 0; !rc && i < schedule->n_steps; i++)
        if (schedule->steps[i].kind == BR_STEP_SEND)
            rc = add_message(net, rank, schedule->steps[i].peer,
                             schedule->steps[i].span.count / (double)schedule->pieces);
    if (!rc)
        br_schedule_free(schedule);
    return rc;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void show(const struct network *net)
{
    double messages = 0, any = 0, n = net->cube.hosts;
    uint32_t all = 0;

    for (uint32_t host = 0; host < net->cube.hosts; host++) {
        messages = larger(messages, larger(net->out[host], net->in[host]) / nics(net, host));
        any = larger(any, 1.0 / nics(net, host));
        all += nics(net, host);
    }
    any = larger(any, 2 * (n - 1) / all);
    printf("%.4f %.4f\n", net->hops > 0 ? larger(messages, net->hops / all) : any, any);
}

static int add_failures(struct network *net, char **argv)
{
    int rc = 0;

    for (; *argv && !rc; argv += 3) {
        bool nic = strcmp(*argv, "nic") == 0;

        if ((!nic && strcmp(*argv, "switch") != 0) || !argv[1] || !argv[2])
            return br_error(EINVAL, "'%s': write nic HOST LEVEL or switch LEVEL INDEX", *argv);
        rc = nic ? br_failures_add(&net->failures, BR_FAILURE_NIC, (uint32_t)atoi(argv[1]),
                                   (uint32_t)atoi(argv[2]))
                 : br_failures_add(&net->failures, BR_FAILURE_SWITCH, (uint32_t)atoi(argv[2]),
                                   (uint32_t)atoi(argv[1]));
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct network net = {0};
    struct br_algorithm_config config;
    const struct br_option options[] = {{0}};
    const char *usage = "faults N,K ALGORITHM [nic HOST LEVEL | switch LEVEL INDEX]...";
    struct br_arguments arguments;
    int rc = br_arguments_parse(&arguments, options, usage, argc, argv);
    bool planned;

    if (rc > 0)
        return 0;
    if (!rc && arguments.count < 2)
        rc = br_error(EINVAL, "write it as: %s", usage);
    if (!rc)
        rc = br_bcube_parse(&net.cube, arguments.operands[0]);
    planned = !rc && strcmp(arguments.operands[1], "auto") == 0;
    if (!rc && !planned) {
        br_topology_bcube(&net.topology, &net.cube);
        rc = br_algorithm_config_parse(&net.topology, arguments.operands[1], &config);
    }
    if (!rc)
        rc = add_failures(&net, arguments.operands + 2);
    net.out = calloc(net.cube.hosts + 1, sizeof *net.out);
    net.in = calloc(net.cube.hosts + 1, sizeof *net.in);
    for (uint32_t rank = 0; !rc && !planned && rank < net.cube.hosts; rank++)
        rc = add_rank(&net, &config, rank);
    if (rc)
        fprintf(stderr, "faults: %s\n", br_error_message());
    else
        show(&net);
    free(net.out);
    free(net.in);
    br_failures_destroy(&net.failures);
    return rc != 0;
}
