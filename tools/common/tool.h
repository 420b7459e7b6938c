/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sub-commands of `braid`. argv[0] is the sub-command's name. Each returns the exit code of the
 * process: 0, 1 (it failed, with a message on stderr), 2 (wrong usage).
 */
#ifndef BR_TOOLS_COMMON_TOOL_H
#define BR_TOOLS_COMMON_TOOL_H

/* allreduce, reduce_scatter, ..., sendrecv: by argv[0] */
int br_tool_collective(int argc, char **argv);
int br_tool_run(int argc, char **argv);
int br_tool_perf(int argc, char **argv);
int br_tool_calibrate(int argc, char **argv);
int br_tool_info(int argc, char **argv);
int br_tool_demo(int argc, char **argv);
int br_tool_plan(int argc, char **argv);
int br_tool_train(int argc, char **argv);
int br_tool_top(int argc, char **argv);
int br_tool_bcube(int argc, char **argv);

#endif
