/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/rkey.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

static void rkey_pack__comes_back(void **state)
{
    static const struct br_verbs_rkey places[] = {
        {.address = 1, .rkey = 0, .length = 1, .granule = 64},
        {.address = 0x7fffffffffffull, .rkey = 0xffffffff, .length = 1 << 24, .granule = 4096 * 64},
        {.address = (1ull << 57) - 1, .rkey = 0x12345678, .length = 999999, .granule = 129 * 64},
        {.address = 0x7f0012345678, .rkey = 7, .length = 65536, .granule = 4096},
    };

    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        uint8_t token[BR_RKEY_BYTES];
        struct br_verbs_rkey back;

        assert_true(br_verbs_rkey_pack(&places[i], token));
        back = br_verbs_rkey_unpack(token);
        assert_int_equal(back.address, places[i].address);
        assert_int_equal(back.rkey, places[i].rkey);
        assert_int_equal(back.length, places[i].length);
        assert_int_equal(back.granule, places[i].granule);
    }
}

static void rkey_pack__refuses(void **state)
{
    static const struct br_verbs_rkey places[] = {
        {.address = 1ull << 57, .length = 1, .granule = 64},
        {.address = 1, .length = 0, .granule = 64},
        {.address = 1, .length = (1 << 24) + 1, .granule = 64},
        {.address = 1, .length = 1, .granule = 65},
        {.address = 1, .length = 1, .granule = 0},
        {.address = 1, .length = 1, .granule = 4097 * 64},
    };
    uint8_t token[BR_RKEY_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        assert_false(br_verbs_rkey_pack(&places[i], token));
}

/* A peer may send anything as a token. */
static void rkey_unpack__any_bytes(void **state)
{
    struct br_verbs_rkey place;
    struct br_random random;

    (void)state;
    br_random_seed(&random, 1);
    for (int i = 0; i < 10000; i++) {
        uint64_t words[2] = {br_random_next(&random), br_random_next(&random)};
        uint8_t token[BR_RKEY_BYTES];

        memcpy(token, words, sizeof token);
        place = br_verbs_rkey_unpack(token);
        assert_in_range(place.length, 1, 1 << 24);
        assert_in_range(place.granule, 64, 4096 * 64);
    }
}

static const struct br_verbs_rkey grid = {
    .address = 4096, .rkey = 1, .length = 20000, .granule = 64};

static bool fits(uint32_t slot, uint32_t offset, uint32_t length, const uint8_t *inline_)
{
    struct br_frame frame = {.kind = BR_FRAME_DATA,
                             .slot = slot,
                             .offset = offset,
                             .length = length,
                             .inline_ = inline_};
    uint32_t imm;

    return br_verbs_imm_pack(&frame, &grid, &imm);
}

static void imm_pack__comes_back(void **state)
{
    const uint8_t inline_[BR_FRAME_INLINE] = {3};
    struct br_frame frame = {
        .slot = 0xabcd0fff, .offset = 16384, .length = 20000 - 16384, .inline_ = inline_};
    struct br_verbs_imm imm;
    uint32_t word = 0;

    (void)state;
    assert_true(br_verbs_imm_pack(&frame, &grid, &word));
    imm = br_verbs_imm_unpack(word);
    assert_int_equal(imm.index, 0xfff);
    assert_int_equal(imm.generation, 0xabcd & 63);
    assert_int_equal(imm.granules, 256);
    assert_int_equal(imm.flags, 3);
}

static void imm_pack__refuses_what_the_receiver_must_check(void **state)
{
    uint8_t inline_[BR_FRAME_INLINE] = {0};

    (void)state;
    assert_true(fits(0x10000, 0, 4096, NULL));
    assert_true(fits(0x10000, 0, 4096, inline_));
    assert_false(fits(0x11000, 0, 4096, NULL));     /* a slot beyond the field */
    assert_false(fits(0x10000, 0, 0, NULL));        /* empty */
    assert_false(fits(0x10000, 1, 64, NULL));       /* off the grid */
    assert_false(fits(0x10000, 0, 65, NULL));       /* ends off the grid */
    assert_false(fits(0x10000, 4032, 128, NULL));   /* two slices */
    assert_false(fits(0x10000, 16384, 4096, NULL)); /* beyond the end */
    assert_false(fits(0x10000, 20032, 64, NULL));
    assert_false(fits(0x10000, 0xffffffc0u, 64, NULL));
    inline_[0] = 4;
    assert_false(fits(0x10000, 0, 4096, inline_));
    inline_[0] = 0;
    inline_[47] = 1;
    assert_false(fits(0x10000, 0, 4096, inline_));
}

/* The present number, or the one it was: up to 63 uses ago, and over the wrap of 16 bits. */
static void imm_slot__tells_generations_apart(void **state)
{
    struct br_slot_table table;
    struct br_slot *slot;
    uint32_t old[64];

    (void)state;
    assert_int_equal(br_slot_table_init(&table, 1), 0);
    for (uint32_t i = 0; i < 70000; i++) {
        struct br_verbs_imm imm;

        slot = br_slot_get(&table, &table, 64, 64);
        old[i % 64] = br_slot_number(&table, slot);
        for (uint32_t age = 0; age < 64 && age <= i && i % 1000 == 0; age++) {
            uint32_t number;

            imm = (struct br_verbs_imm){.generation = old[(i - age) % 64] >> 16 & 63};
            assert_ptr_equal(br_verbs_imm_slot(&table, imm, &number), age == 0 ? slot : NULL);
            assert_int_equal(number == old[i % 64], age == 0);
        }
        br_slot_put(&table, slot);
    }
    br_slot_table_destroy(&table);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(rkey_pack__comes_back),
        cmocka_unit_test(rkey_pack__refuses),
        cmocka_unit_test(rkey_unpack__any_bytes),
        cmocka_unit_test(imm_pack__comes_back),
        cmocka_unit_test(imm_pack__refuses_what_the_receiver_must_check),
        cmocka_unit_test(imm_slot__tells_generations_apart),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
