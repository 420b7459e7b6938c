/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/digest.h"

/* Ranks built elsewhere compare with ours, so the numbers are XXH3's own: the one of nothing is in
 * its documentation. */
static void digest_bytes__is_xxh3(void **state)
{
    (void)state;
    assert_int_equal(br_digest_bytes("", 0), 0x2d06800538d394c2ull);
}

static void digest__every_bit_counts(void **state)
{
    uint64_t words[3] = {1, 2, 3};
    uint64_t all = br_digest(words, 3);

    (void)state;
    assert_int_equal(all, br_digest_bytes(words, sizeof words));
    assert_int_not_equal(all, br_digest(words, 2));
    for (int bit = 0; bit < 3 * 64; bit++) {
        words[bit / 64] ^= 1ull << bit % 64;
        assert_int_not_equal(br_digest(words, 3), all);
        words[bit / 64] ^= 1ull << bit % 64;
    }
}

/* Arguments are small numbers in few places: of 4,096 such sets no more meet in 16 bits than chance
 * lets (124 of 64 Ki, expected). */
static void digest_short__small_numbers_spread(void **state)
{
    static uint8_t seen[1 << 16];
    int met = 0;

    (void)state;
    for (uint64_t i = 0; i < 4096; i++) {
        uint64_t words[] = {i % 8, i / 8 % 8, i / 64 % 8, i / 512};

        met += seen[br_digest_short(words, 4)]++ > 0;
    }
    assert_in_range(met, 1, 250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digest_bytes__is_xxh3),
        cmocka_unit_test(digest__every_bit_counts),
        cmocka_unit_test(digest_short__small_numbers_spread),
    };

    return cmocka_run_group_tests_name("base/digest", tests, NULL, NULL);
}
