/* SPDX-License-Identifier: BSD-3-Clause */
#include "pattern.h"

#include <string.h>

#include "collectives/type.h"

void pattern_put(enum braid_type type, uint8_t *to, int value)
{
    static const uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500};
    float single = (float)value;
    double twice = value;
    uint32_t bits;
    int64_t whole = value;

    memcpy(&bits, &single, sizeof bits);
    bits >>= 16;
    switch (type) {
    case BRAID_FLOAT32:
        memcpy(to, &single, sizeof single);
        break;
    case BRAID_FLOAT64:
        memcpy(to, &twice, sizeof twice);
        break;
    case BRAID_FLOAT16:
        memcpy(to, &halves[value], 2);
        break;
    case BRAID_BFLOAT16:
        memcpy(to, &bits, 2);
        break;
    default:
        memcpy(to, &whole, br_type_size(type)); /* little-endian */
        break;
    }
}
