/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t interrupted;

static void interrupt_note(int number)
{
    (void)number;
    interrupted = 1;
}

void br_interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = interrupt_note, .sa_flags = (int)SA_RESETHAND};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool br_interrupted(void)
{
    return interrupted != 0;
}
