/* SPDX-License-Identifier: BSD-3-Clause */
/* Ctrl-C of `braid perf` and `braid top`: the first SIGINT or SIGTERM asks for an orderly end, the
 * second one ends the process. */
#ifndef BR_TOOLS_COMMON_INTERRUPT_H
#define BR_TOOLS_COMMON_INTERRUPT_H

#include <stdbool.h>

void br_interrupt_catch(void); /* SIGINT and SIGTERM, from now on */
bool br_interrupted(void);

#endif
