/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers for people. Each writes to `out` (16 bytes) and returns it. */
#ifndef BR_TOOLS_COMMON_FORMAT_H
#define BR_TOOLS_COMMON_FORMAT_H

#define BR_FORMAT_BYTES 16

/* "411.1 MB", powers of 1000 */
const char *br_format_bytes(char out[BR_FORMAT_BYTES], double bytes);
const char *br_format_time(char out[BR_FORMAT_BYTES], double us); /* "12.3 ms" */

#endif
