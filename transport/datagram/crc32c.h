/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C (Castagnoli), the checksum of packets.
 *
 * 1. It uses the processor's instruction where there is one (found at run time), in three streams
 *    at once: one instruction takes three cycles and a new one may start in each cycle, so one
 *    stream leaves two thirds idle. Elsewhere it uses eight tables.
 * 2. Where the processor multiplies without carries in registers of 64 bytes (VPCLMULQDQ), 256
 *    bytes or more are folded: a number is moved on by some bytes with one multiplication by a
 *    power of x modulo the polynomial, so four registers move along the bytes, each xored onto the
 *    bytes 256 further on, until 64 bytes with the same remainder are left. Two to three times as
 *    fast as the three streams. After Gopal et al., "Fast CRC Computation for Generic Polynomials
 *    Using PCLMULQDQ Instruction" (2009).
 * 3. Tables and powers are made before main(), as packets may come from any thread.
 */
#ifndef BR_TRANSPORT_DATAGRAM_CRC32C_H
#define BR_TRANSPORT_DATAGRAM_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of the bytes that `crc` is the checksum of (0 for no bytes), followed by n
 * more. May be called from any thread; does not block. */
uint32_t br_crc32c(uint32_t crc, const void *bytes, size_t n);
/* The same in three streams (note 1), and with tables only. For the
 * tests. The first falls back to tables on a processor without the instruction. */
uint32_t br_crc32c_streams(uint32_t crc, const void *bytes, size_t n);
uint32_t br_crc32c_plain(uint32_t crc, const void *bytes, size_t n);

#endif
