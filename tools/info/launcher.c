/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/info/info.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/launcher.h"

/* How the ranks of the job would find rank 0. */
static const char *meeting(const struct br_environment *e, char *text, size_t bytes)
{
    if (e->size == 1)
        return "one process: nobody to meet";
    if (e->id_comes && !e->port)
        return "the launcher carries rank 0's addresses and the secret";
    if (e->id_comes)
        snprintf(text, bytes, "the launcher carries rank 0's addresses, port %u and the secret",
                 e->port);
    else
        snprintf(text, bytes, "rank 0 is at %.200s port %u", e->address, e->port);
    return text;
}

void br_info_gather_launcher(cJSON *root)
{
    cJSON *launcher = cJSON_AddObjectToObject(root, "launcher"), *others;
    struct br_environment e;
    const char *sign;
    char text[256];

    if (br_environment_read(NULL, &e))
        cJSON_AddStringToObject(launcher, "error", br_error_message());
    cJSON_AddStringToObject(launcher, "name", e.launcher ? e.launcher->name : "none");
    cJSON_AddStringToObject(launcher, "sign", e.sign);
    others = cJSON_AddArrayToObject(launcher, "also");
    for (int i = 0; br_launcher_at(i); i++) {
        sign = br_launcher_at(i)->detect();
        if (sign && br_launcher_at(i) != e.launcher)
            cJSON_AddItemToArray(others, cJSON_CreateString(br_launcher_at(i)->name));
    }
    if (cJSON_HasObjectItem(launcher, "error"))
        return;
    cJSON_AddNumberToObject(launcher, "rank", e.rank);
    cJSON_AddNumberToObject(launcher, "size", e.size);
    if (e.local_known) {
        cJSON_AddNumberToObject(launcher, "local_rank", e.local_rank);
        cJSON_AddNumberToObject(launcher, "local_size", e.local_size);
    }
    cJSON_AddStringToObject(launcher, "meeting", meeting(&e, text, sizeof text));
}

void br_info_print_launcher(const cJSON *root)
{
    const cJSON *launcher = cJSON_GetObjectItem(root, "launcher"), *other;
    const char *sign = br_info_text(launcher, "sign");

    printf("Launcher\n  %s", br_info_text(launcher, "name"));
    if (*sign)
        printf(", by %s", sign);
    if (cJSON_HasObjectItem(launcher, "size"))
        printf(": rank %.0f of %.0f", br_info_number(launcher, "rank"),
               br_info_number(launcher, "size"));
    if (cJSON_HasObjectItem(launcher, "local_size"))
        printf("; of this host %.0f of %.0f", br_info_number(launcher, "local_rank"),
               br_info_number(launcher, "local_size"));
    else if (br_info_number(launcher, "size") > 1)
        printf("; which ranks share this host is found at the start");
    printf("\n");
    if (*br_info_text(launcher, "meeting"))
        printf("  %s\n", br_info_text(launcher, "meeting"));
    cJSON_ArrayForEach(other, cJSON_GetObjectItem(launcher, "also")) printf(
        "  also there: %s (BRAID_LAUNCHER=%s takes it)\n", other->valuestring, other->valuestring);
    if (*br_info_text(launcher, "error"))
        printf("  %s\n", br_info_text(launcher, "error"));
    printf("\n");
}
