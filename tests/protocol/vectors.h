/* SPDX-License-Identifier: BSD-3-Clause */
/* The test vectors of doc/wire.md, read from the document itself, so that it cannot be wrong. */
#ifndef BR_TESTS_PROTOCOL_VECTORS_H
#define BR_TESTS_PROTOCOL_VECTORS_H

#include <stddef.h>
#include <stdint.h>

/* The bytes on the line behind "    NAME:", blanks ignored; how many. Fails the test when there are
 * none. */
size_t vector(const char *name, uint8_t *out, size_t most);

#endif
