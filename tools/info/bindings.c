/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/info/info.h"

#include <stdio.h>

void br_info_gather_bindings(cJSON *root)
{
    cJSON *bindings = cJSON_AddObjectToObject(root, "bindings");
    cJSON *python = cJSON_AddObjectToObject(bindings, "python");

    cJSON_AddBoolToObject(python, "built", BRAID_PYTHON_BUILT[0] != 0);
    cJSON_AddStringToObject(python, "version", BRAID_PYTHON_BUILT);
    cJSON_AddStringToObject(python, "folder", BRAID_PYTHON_FOLDER);
    cJSON_AddStringToObject(python, "why_not", BRAID_PYTHON_WHY_NOT);
}

void br_info_print_bindings(const cJSON *root)
{
    const cJSON *python = cJSON_GetObjectItem(cJSON_GetObjectItem(root, "bindings"), "python");

    if (cJSON_IsTrue(cJSON_GetObjectItem(python, "built")))
        printf("Bindings\n  python built with %s; installed in %s\n\n",
               br_info_text(python, "version"), br_info_text(python, "folder"));
    else
        printf("Bindings\n  python not built: %s\n\n", br_info_text(python, "why_not"));
}
