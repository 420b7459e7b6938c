/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors: a negative errno travels, the words stay in the thread.
 *
 * The words are decided where the error is decided, so they name rank, level and device. Functions
 * that merely pass an error on return the number and leave the words alone.
 */
#ifndef BR_BASE_ERROR_H
#define BR_BASE_ERROR_H

#include <stddef.h>

/* Bytes of one message, the final zero included; longer ones are cut. */
#define BR_ERROR_BYTES 512

/* Stores the words of this thread's last error. err: a positive errno. Returns -err. Never
 * fails. */
int br_error(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For clang's analyser, which looks into no other file: what comes back is never 0. */
#ifdef __clang_analyzer__
#define br_error(err, ...) ((void)(br_error)(err, __VA_ARGS__), -1)
#endif

/* Puts more context in front of this thread's last words ("device eth0: " + words). Returns rc
 * unchanged. */
int br_error_prefix(int rc, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The words of this thread's last error; "" when there was none. Owned by the thread, valid until
 * its next error. */
const char *br_error_message(void);

#endif
