/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sub-commands of `braid bcube`. argv[0] is the sub-command's name. Each returns the exit code
 * of the process: 0, 1 (it failed, with a message on stderr), 2 (wrong usage); those of check have
 * a meaning of their own, see doc/check.md.
 */
#ifndef BR_TOOLS_TESTBED_BCUBE_H
#define BR_TOOLS_TESTBED_BCUBE_H

int br_bcube_plan(int argc, char **argv);
int br_bcube_emulate(int argc, char **argv);
int br_bcube_list(int argc, char **argv);
int br_bcube_exec(int argc, char **argv);
int br_bcube_run(int argc, char **argv);
int br_bcube_fault(int argc, char **argv);
int br_bcube_down(int argc, char **argv);
int br_bcube_check(int argc, char **argv);
int br_bcube_matrix(int argc, char **argv);
int br_bcube_agent(int argc, char **argv);

#endif
