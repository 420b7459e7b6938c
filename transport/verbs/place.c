/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/place.h"

#include <string.h>

#define ADDRESS_BITS    57
#define GRANULE_UNIT    64u   /* granules are multiples of it (slot.c) */
#define MAX_GRANULE     4096u /* of these units: slices of 16 MiB */
#define MAX_LENGTH      (1u << 24)
#define GENERATION_BITS 6
#define GRANULE_BITS    12
#define FLAG_BITS       2

/* word: address (57 bits), low bits of the granule (7); rest: length - 1 (24 bits), high bits of the granule (5). */
struct token {
    uint64_t word;
    uint32_t rkey, rest;
};
static_assert(sizeof(struct token) == BR_PLACE_BYTES, "a token fills its place");

bool br_verbs_place_pack(const struct br_verbs_place *place, uint8_t out[BR_PLACE_BYTES])
{
    uint32_t granule = place->granule / GRANULE_UNIT - 1;
    struct token token;

    if (place->address >> ADDRESS_BITS || !place->length || place->length > MAX_LENGTH ||
        place->granule % GRANULE_UNIT || granule >= MAX_GRANULE)
        return false;
    token.word = place->address | (uint64_t)granule << ADDRESS_BITS;
    token.rkey = place->rkey;
    token.rest = (place->length - 1) | granule >> 7 << 24;
    memcpy(out, &token, sizeof token);
    return true;
}

void br_verbs_place_unpack(const uint8_t in[BR_PLACE_BYTES], struct br_verbs_place *place)
{
    struct token token;

    memcpy(&token, in, sizeof token);
    place->address = token.word & ((1ull << ADDRESS_BITS) - 1);
    place->rkey = token.rkey;
    place->length = (token.rest & (MAX_LENGTH - 1)) + 1;
    place->granule =
        (((token.rest >> 24 & 31) << 7 | (uint32_t)(token.word >> ADDRESS_BITS)) + 1) * GRANULE_UNIT;
}

/* Only the lowest bits of the first byte are set. */
static bool inline_fits(const uint8_t *inline_)
{
    uint64_t words[BR_FRAME_INLINE / sizeof(uint64_t)], rest = 0;

    if (!inline_)
        return true;
    memcpy(words, inline_, sizeof words);
    for (size_t i = 1; i < sizeof words / sizeof *words; i++)
        rest |= words[i];
    ((uint8_t *)words)[0] &= (uint8_t) ~((1u << FLAG_BITS) - 1);
    return !(rest | words[0]);
}

/* On the grid, inside the transfer, within one slice. */
static bool lies_well(const struct br_frame *frame, const struct br_verbs_place *place)
{
    uint32_t end = frame->offset + frame->length;

    /* A whole transfer of one slice, as all small ones are: no division. */
    if (!frame->offset && frame->length == place->length &&
        end <= (uint64_t)place->granule * BR_SLOT_GRANULES)
        return true;
    return frame->length && frame->offset % place->granule == 0 && frame->offset < place->length &&
           frame->length <= place->length - frame->offset &&
           (end % place->granule == 0 || end == place->length) &&
           frame->offset / place->granule / BR_SLOT_GRANULES == (end - 1) / place->granule / BR_SLOT_GRANULES;
}

bool br_verbs_imm_pack(const struct br_frame *frame, const struct br_verbs_place *place, uint32_t *imm)
{
    uint32_t index = frame->slot & 0xffff, generation = frame->slot >> 16;
    uint32_t granules = frame->offset ? frame->offset / place->granule : 0;

    if (index >= BR_VERBS_MAX_SLOTS || !lies_well(frame, place) || granules >> GRANULE_BITS ||
        !inline_fits(frame->inline_))
        return false;
    *imm = index << 20 | (generation & ((1u << GENERATION_BITS) - 1)) << 14 | granules << FLAG_BITS |
           (frame->inline_ ? frame->inline_[0] : 0);
    return true;
}

struct br_verbs_imm br_verbs_imm_unpack(uint32_t imm)
{
    return (struct br_verbs_imm){.index = imm >> 20,
                                 .generation = imm >> 14 & ((1u << GENERATION_BITS) - 1),
                                 .granules = imm >> FLAG_BITS & ((1u << GRANULE_BITS) - 1),
                                 .flags = imm & ((1u << FLAG_BITS) - 1)};
}

const uint8_t *br_verbs_imm_inline(const struct br_verbs_imm *imm)
{
    static const uint8_t bytes[1 << FLAG_BITS][BR_FRAME_INLINE] = {{0}, {1}, {2}, {3}};

    return bytes[imm->flags & ((1u << FLAG_BITS) - 1)];
}

uint32_t br_verbs_imm_number(const struct br_slot_table *slots, const struct br_verbs_imm *imm)
{
    uint32_t present = imm->index < slots->count ? slots->slots[imm->index].generation : 0;
    uint32_t age = (present - imm->generation) & ((1u << GENERATION_BITS) - 1);

    return (present - age) << 16 | imm->index;
}
