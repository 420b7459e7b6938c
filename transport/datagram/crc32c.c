/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/datagram/crc32c.h"

#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* reflected */
/* bytes of each of the three streams: three make up the payload of a packet of 1500 bytes */
#define STREAM ((size_t)472)

static uint32_t tables[8][256];
static uint32_t shift[4][256]; /* what STREAM zero bytes make of each byte of a checksum */
static bool have_instruction;

static uint32_t plain(uint32_t crc, const uint8_t *bytes, size_t n)
{
    while (n >= 8) {
        uint32_t low, high;

        memcpy(&low, bytes, 4);
        memcpy(&high, bytes + 4, 4);
        low ^= crc;
        crc = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^ tables[5][low >> 16 & 0xff] ^
              tables[4][low >> 24] ^ tables[3][high & 0xff] ^ tables[2][high >> 8 & 0xff] ^
              tables[1][high >> 16 & 0xff] ^ tables[0][high >> 24];
        bytes += 8;
        n -= 8;
    }
    while (n--)
        crc = crc >> 8 ^ tables[0][(crc ^ *bytes++) & 0xff];
    return crc;
}

static void make_tables(void)
{
    static const uint8_t zeros[STREAM];

    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;

        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 0xff];
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 0; k < 4; k++)
            shift[k][i] = plain(i << 8 * k, zeros, sizeof zeros);
}

__attribute__((constructor)) static void prepare(void)
{
    make_tables();
#ifdef __x86_64__
    __builtin_cpu_init();
    have_instruction = __builtin_cpu_supports("sse4.2");
#endif
}

uint32_t br_crc32c_plain(uint32_t crc, const void *bytes, size_t n)
{
    return ~plain(~crc, bytes, n);
}

#ifdef __x86_64__
static uint32_t shifted(uint32_t crc)
{
    return shift[0][crc & 0xff] ^ shift[1][crc >> 8 & 0xff] ^ shift[2][crc >> 16 & 0xff] ^
           shift[3][crc >> 24];
}

static uint64_t word(const uint8_t *bytes)
{
    uint64_t out;

    memcpy(&out, bytes, sizeof out);
    return out;
}

__attribute__((target("sse4.2"))) static uint32_t fast(uint32_t crc, const uint8_t *bytes, size_t n)
{
    uint64_t a = crc;

    for (; n >= 3 * STREAM; bytes += 3 * STREAM, n -= 3 * STREAM) {
        uint64_t b = 0, c = 0;

        for (size_t i = 0; i < STREAM; i += 8) {
            a = __builtin_ia32_crc32di(a, word(bytes + i));
            b = __builtin_ia32_crc32di(b, word(bytes + STREAM + i));
            c = __builtin_ia32_crc32di(c, word(bytes + 2 * STREAM + i));
        }
        a = shifted(shifted((uint32_t)a) ^ (uint32_t)b) ^ c;
    }
    for (; n >= 8; bytes += 8, n -= 8)
        a = __builtin_ia32_crc32di(a, word(bytes));
    crc = (uint32_t)a;
    while (n--)
        crc = __builtin_ia32_crc32qi(crc, *bytes++);
    return crc;
}
#endif

uint32_t br_crc32c(uint32_t crc, const void *bytes, size_t n)
{
#ifdef __x86_64__
    if (have_instruction)
        return ~fast(~crc, bytes, n);
#endif
    return br_crc32c_plain(crc, bytes, n);
}
