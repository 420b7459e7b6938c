/* SPDX-License-Identifier: BSD-3-Clause */
/* Rates of links as text, as tc writes them: 100mbit, 2.5gbit. */
#ifndef BR_BASE_RATE_H
#define BR_BASE_RATE_H

#include <stdint.h>

#define BR_RATE_TEXT 32

/* bit/s of "100mbit"; also kbit, gbit, bit. -EINVAL with a message. */
int br_rate_parse(const char *text, uint64_t *rate);

/* The shortest exact form. Returns out, which holds BR_RATE_TEXT bytes. */
char *br_rate_print(uint64_t rate, char *out);

#endif
