/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C (Castagnoli), the checksum of packets.
 *
 * 1. The processor's instruction where there is one (asked at run time), in three streams at once: one instruction takes
 *    three cycles and a new one may start each cycle, so one stream leaves two thirds idle. Else eight tables.
 * 2. Tables are made before main(), as packets may come from any thread.
 */
#ifndef BR_TRANSPORT_DATAGRAM_CRC32C_H
#define BR_TRANSPORT_DATAGRAM_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Checksum of what `crc` is the checksum of (0: nothing), followed by these bytes. */
uint32_t br_crc32c(uint32_t crc, const void *bytes, size_t n);
/* The same without the instruction: for the tests. */
uint32_t br_crc32c_plain(uint32_t crc, const void *bytes, size_t n);

#endif
