/* SPDX-License-Identifier: BSD-3-Clause */
/* `braid bcube`: finds the sub-command. */
#include "tools/testbed/bcube.h"
#include "tools/common/options.h"
#include "tools/common/tool.h"

static const struct br_command commands[] = {
    {"plan", br_bcube_plan,
     "cabling, addresses, switch configurations, a drawing: braid bcube plan 3 2"},
    {"emulate", br_bcube_emulate,
     "the whole testbed on this machine: braid bcube emulate 3 2 --rate 500mbit"},
    {"list", br_bcube_list, "the emulated testbeds that there are"},
    {"exec", br_bcube_exec, "a command on one host: braid bcube exec h00 -- ip addr"},
    {"run", br_bcube_run, "a command on all hosts at once: braid bcube run -- braid allreduce"},
    {"fault", br_bcube_fault, "inject and clear faults: braid bcube fault nic h00 1 down"},
    {"down", br_bcube_down, "remove an emulated testbed"},
    {"check", br_bcube_check, "what is wrong with a testbed, and the remedy"},
    {"matrix", br_bcube_matrix, "latency and bandwidth of every link, as a heat map"},
    {"agent", br_bcube_agent, NULL},
};

int br_tool_bcube(int argc, char **argv)
{
    return br_dispatch("braid bcube", commands, sizeof commands / sizeof *commands, argc, argv);
}
