/* SPDX-License-Identifier: BSD-3-Clause */
#include "exact.h"

#include <stdarg.h>
#include <stdio.h>

bool exact_wrong(char text[EXACT_TEXT], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!text[0])
        vsnprintf(text, EXACT_TEXT, format, args);
    va_end(args);
    return false;
}
