/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/info/info.h"

#include <stdio.h>

/* cmake/python.cmake and cmake/torch.cmake say what was built, and with what; "": nothing, and why.
 */
static const struct binding {
    const char *name, *built, *folder, *why_not;
} table[] = {
    {"python", BRAID_PYTHON_BUILT, BRAID_PYTHON_FOLDER, BRAID_PYTHON_WHY_NOT},
    {"torch", BRAID_TORCH_BUILT, BRAID_TORCH_FOLDER, BRAID_TORCH_WHY_NOT},
};

#define BINDINGS (sizeof table / sizeof table[0])

void br_info_gather_bindings(cJSON *root)
{
    cJSON *bindings = cJSON_AddObjectToObject(root, "bindings");

    for (const struct binding *b = table; b < table + BINDINGS; b++) {
        cJSON *one = cJSON_AddObjectToObject(bindings, b->name);

        cJSON_AddBoolToObject(one, "built", b->built[0] != 0);
        cJSON_AddStringToObject(one, "version", b->built);
        cJSON_AddStringToObject(one, "folder", b->folder);
        cJSON_AddStringToObject(one, "why_not", b->why_not);
    }
}

void br_info_print_bindings(const cJSON *root)
{
    const cJSON *one;

    printf("Bindings\n");
    cJSON_ArrayForEach(one, cJSON_GetObjectItem(root, "bindings"))
    {
        if (cJSON_IsTrue(cJSON_GetObjectItem(one, "built")))
            printf("  %-6s  built with %s; installed in %s\n", one->string,
                   br_info_text(one, "version"), br_info_text(one, "folder"));
        else
            printf("  %-6s  not built: %s\n", one->string, br_info_text(one, "why_not"));
    }
    printf("\n");
}
