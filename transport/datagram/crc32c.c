/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/datagram/crc32c.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* reflected */
/* bytes of each of the three streams: three make up the payload of a packet of 1500 bytes */
#define STREAM ((size_t)472)
#define WIDE   ((size_t)256) /* bytes of the four registers that are moved along at once */

static uint32_t tables[8][256];
static uint32_t shift[4][256]; /* what STREAM zero bytes make of each byte of a checksum */
static bool have_instruction, have_wide;
/* What moves a register of 64 bytes by 64, 128 and 256 bytes (crc32c.h note 2), the earlier half of
 * each 16 bytes and the later one. */
static uint64_t by_64[8], by_128[8], by_256[8];

static uint32_t crc32c_plain(uint32_t crc, const uint8_t *bytes, size_t n)
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
            shift[k][i] = crc32c_plain(i << 8 * k, zeros, sizeof zeros);
}

/* x^bits, as a factor for a multiplication without carries of reflected numbers, which multiplies
 * by x besides. */
static uint64_t crc32c_factor(unsigned bits)
{
    uint32_t power = 1u << 31;

    for (unsigned i = 1; i < bits; i++)
        power = power >> 1 ^ (power & 1 ? POLYNOMIAL : 0);
    return (uint64_t)power << 32;
}

static void make_factors(uint64_t factors[8], unsigned bytes)
{
    for (int i = 0; i < 8; i += 2) {
        factors[i] = crc32c_factor(8 * bytes + 64);
        factors[i + 1] = crc32c_factor(8 * bytes);
    }
}

__attribute__((constructor)) static void crc32c_prepare(void)
{
    make_tables();
    make_factors(by_64, 64);
    make_factors(by_128, 128);
    make_factors(by_256, 256);
#ifdef __x86_64__
    __builtin_cpu_init();
    have_instruction = __builtin_cpu_supports("sse4.2");
    have_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
#endif
}

uint32_t br_crc32c_plain(uint32_t crc, const void *bytes, size_t n)
{
    return ~crc32c_plain(~crc, bytes, n);
}

#ifdef __x86_64__
static uint32_t crc32c_shifted(uint32_t crc)
{
    return shift[0][crc & 0xff] ^ shift[1][crc >> 8 & 0xff] ^ shift[2][crc >> 16 & 0xff] ^
           shift[3][crc >> 24];
}

static uint64_t crc32c_word(const uint8_t *bytes)
{
    uint64_t out;

    memcpy(&out, bytes, sizeof out);
    return out;
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_fast(uint32_t crc, const uint8_t *bytes,
                                                              size_t n)
{
    uint64_t a = crc;

    for (; n >= 3 * STREAM; bytes += 3 * STREAM, n -= 3 * STREAM) {
        uint64_t b = 0, c = 0;

        for (size_t i = 0; i < STREAM; i += 8) {
            a = __builtin_ia32_crc32di(a, crc32c_word(bytes + i));
            b = __builtin_ia32_crc32di(b, crc32c_word(bytes + STREAM + i));
            c = __builtin_ia32_crc32di(c, crc32c_word(bytes + 2 * STREAM + i));
        }
        a = crc32c_shifted(crc32c_shifted((uint32_t)a) ^ (uint32_t)b) ^ c;
    }
    for (; n >= 8; bytes += 8, n -= 8)
        a = __builtin_ia32_crc32di(a, crc32c_word(bytes));
    crc = (uint32_t)a;
    while (n--)
        crc = __builtin_ia32_crc32qi(crc, *bytes++);
    return crc;
}

#define WITH_WIDE __attribute__((target("avx512f,vpclmulqdq,sse4.2")))

/* `block`, as many bytes further on as the factors are for, onto what stands there. */
WITH_WIDE static __m512i crc32c_move(__m512i block, const uint64_t factors[8], __m512i onto)
{
    __m512i by = _mm512_loadu_si512(factors);

    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(block, by, 0x00),
                                     _mm512_clmulepi64_epi128(block, by, 0x11), onto,
                                     0x96 /* a ^ b ^ c */);
}

WITH_WIDE static uint32_t crc32c_wide(uint32_t crc, const uint8_t *bytes, size_t n)
{
    __m512i a = _mm512_loadu_si512(bytes), b = _mm512_loadu_si512(bytes + 64),
            c = _mm512_loadu_si512(bytes + 128), d = _mm512_loadu_si512(bytes + 192);
    uint8_t rest[64];

    a = _mm512_xor_si512(a, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    for (bytes += WIDE, n -= WIDE; n >= WIDE; bytes += WIDE, n -= WIDE) {
        a = crc32c_move(a, by_256, _mm512_loadu_si512(bytes));
        b = crc32c_move(b, by_256, _mm512_loadu_si512(bytes + 64));
        c = crc32c_move(c, by_256, _mm512_loadu_si512(bytes + 128));
        d = crc32c_move(d, by_256, _mm512_loadu_si512(bytes + 192));
    }
    a = crc32c_move(crc32c_move(a, by_128, c), by_64, crc32c_move(b, by_128, d));
    for (; n >= 64; bytes += 64, n -= 64)
        a = crc32c_move(a, by_64, _mm512_loadu_si512(bytes));
    _mm512_storeu_si512(rest, a);
    /* gcc leaves it out, and what is compiled for older processors becomes slow */
    _mm256_zeroupper();
    return crc32c_fast(crc32c_fast(0, rest, sizeof rest), bytes, n);
}
#endif

uint32_t br_crc32c_streams(uint32_t crc, const void *bytes, size_t n)
{
#ifdef __x86_64__
    if (have_instruction)
        return ~crc32c_fast(~crc, bytes, n);
#endif
    return br_crc32c_plain(crc, bytes, n);
}

uint32_t br_crc32c(uint32_t crc, const void *bytes, size_t n)
{
#ifdef __x86_64__
    if (have_wide && n >= WIDE)
        return ~crc32c_wide(~crc, bytes, n);
#endif
    return br_crc32c_streams(crc, bytes, n);
}
