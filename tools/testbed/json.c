/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/json.h"

#include <stdbool.h>

const char *br_json_text(const cJSON *object, const char *name, const char *otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(item) ? item->valuestring : otherwise;
}

int64_t br_json_number(const cJSON *object, const char *name, int64_t otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    bool fits = cJSON_IsNumber(item) && item->valuedouble > -9e18 && item->valuedouble < 9e18;
    return fits ? (int64_t)item->valuedouble : otherwise;
}
