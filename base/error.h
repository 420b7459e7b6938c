/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors. Functions return a negative errno; the message that explains it stays in the thread.
 *
 * The message is written where the error is decided, so that it can name rank, level and device.
 * Functions that merely pass an error on return its number and leave the message alone.
 */
#ifndef BR_BASE_ERROR_H
#define BR_BASE_ERROR_H

#include <stddef.h>

/* Bytes of one message, the final zero included; longer ones are cut. */
#define BR_ERROR_BYTES 512

/* Stores the message of this thread's last error. err: a positive errno. Returns -err. Never
 * fails. An argument may be br_error_message() itself. */
int br_error(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For clang's analyzer, which looks into no other file: the result is never 0. */
#ifdef __clang_analyzer__
#define br_error(err, ...) ((void)(br_error)(err, __VA_ARGS__), -1)
#endif

/* Puts more context in front of this thread's last message: "device eth0: " and then the message.
 * Returns rc unchanged. */
int br_error_prefix(int rc, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the message of this thread's last error; "" when there was none. The thread owns it; it
 * is valid until the thread's next error. */
const char *br_error_message(void);

#endif
