/* SPDX-License-Identifier: BSD-3-Clause */
/* Ctrl-C of `braid perf`: the first one asks for an end in good order, a second one ends the
 * process. */
#ifndef BR_TOOLS_PERF_INTERRUPT_H
#define BR_TOOLS_PERF_INTERRUPT_H

#include <stdbool.h>

void br_interrupt_catch(void); /* SIGINT and SIGTERM, from now on */
bool br_interrupted(void);

#endif
