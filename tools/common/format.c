/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/format.h"

#include <stdio.h>

static const char *format(char *out, double value, const char *const *units, int last)
{
    int unit = 0;
    while (value >= 999.95 && unit < last) {
        value /= 1000;
        unit++;
    }
    int decimals = value >= 100 || (unit == 0 && value == (double)(long)value) ? 0
                   : value >= 10                                               ? 1
                                                                               : 2;
    snprintf(out, BR_FORMAT_BYTES, "%.*f %s", decimals, value, units[unit]);
    return out;
}

const char *br_format_bytes(char out[BR_FORMAT_BYTES], double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    return format(out, bytes, units, 4);
}

const char *br_format_time(char out[BR_FORMAT_BYTES], double us)
{
    static const char *const units[] = {"us", "ms", "s"};
    return format(out, us, units, 2);
}
