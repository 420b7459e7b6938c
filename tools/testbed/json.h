/* SPDX-License-Identifier: BSD-3-Clause */
/* Members of the objects that the checker and its agents exchange. */
#ifndef BR_TOOLS_TESTBED_JSON_H
#define BR_TOOLS_TESTBED_JSON_H

#include <cjson/cJSON.h>
#include <stdint.h>

/* Return the member's value, or `otherwise` when it is missing, of another type, or no number of 64
 * bits. */
const char *br_json_text(const cJSON *object, const char *name, const char *otherwise);
int64_t br_json_number(const cJSON *object, const char *name, int64_t otherwise);

#endif
