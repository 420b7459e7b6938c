/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/thread.h"

/* Of the thread's last error. */
static struct br_thread_block messages = {.bytes = BR_ERROR_BYTES};

static void error_keep(const char *text)
{
    char *words = br_thread_block(&messages);

    if (words)
        memcpy(words, text, BR_ERROR_BYTES);
}

int(br_error)(int err, const char *format, ...)
{
    char text[BR_ERROR_BYTES]; /* apart, because an argument may be br_error_message() itself */
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    error_keep(text);
    return -err;
}

int br_error_prefix(int rc, const char *format, ...)
{
    char text[BR_ERROR_BYTES];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, "%s", br_error_message());
    error_keep(text);
    return rc;
}

const char *br_error_message(void)
{
    const char *words = br_thread_block(&messages);

    return words ? words : "no memory for the message of an error";
}
