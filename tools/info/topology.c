/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/info/info.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "bcube/address.h"
#include "collectives/comm/settings.h"
#include "protocol/bootstrap/secret.h"
#include "transport/transport.h"

#define DEVICES 64

/* The device of a level, as far as it is known before the job starts; "": the wires will tell. */
static void info_topology_device_of(const struct br_settings *s, uint32_t level,
                                    char out[BR_DEVICE_NAME])
{
    char names[sizeof s->devices], *save = NULL, *name;

    memcpy(names, s->devices, sizeof names);
    name = strtok_r(names, ", ", &save);
    for (uint32_t i = 0; i < level && name; i++)
        name = strtok_r(NULL, ", ", &save);
    snprintf(out, BR_DEVICE_NAME, "%.*s", BR_DEVICE_NAME - 1,
             name            ? name
             : s->devices[0] ? ""
                             : s->nics[level]);
}

static double rate_of(const char *name)
{
    static struct br_device_info infos[DEVICES];
    int n = br_transport_default(false)->probe(infos, DEVICES);

    for (int i = 0; i < n; i++)
        if (!strcmp(infos[i].name, name))
            return (double)infos[i].bits_per_second;
    return 0;
}

static cJSON *level_object(const struct br_settings *s, uint32_t level)
{
    uint32_t rank = s->environment.rank;
    cJSON *object = cJSON_CreateObject(), *neighbours;
    char device[BR_DEVICE_NAME];

    info_topology_device_of(s, level, device);
    cJSON_AddNumberToObject(object, "level", level);
    cJSON_AddStringToObject(object, "device", device);
    cJSON_AddNumberToObject(object, "bits_per_second", rate_of(device));
    if (s->environment.size == 1)
        return object;
    cJSON_AddNumberToObject(object, "switch", br_bcube_switch(&s->cube, rank, level));
    cJSON_AddNumberToObject(object, "port", br_bcube_port(&s->cube, rank, level));
    neighbours = cJSON_AddArrayToObject(object, "neighbours");
    for (uint32_t i = 0; i + 1 < s->cube.n; i++) {
        uint32_t other = br_bcube_neighbour(&s->cube, rank, level, i);

        if (other < s->environment.size)
            cJSON_AddItemToArray(neighbours, cJSON_CreateNumber(other));
    }
    return object;
}

void br_info_gather_topology(cJSON *root)
{
    cJSON *topology = cJSON_AddObjectToObject(root, "topology"), *levels;
    static struct br_settings s;
    char address[BR_BCUBE_TEXT];

    if (br_settings_read(NULL, &s)) {
        cJSON_AddStringToObject(topology, "error", br_error_message());
        return;
    }
    br_secret_wipe(&s.secret);
    cJSON_AddStringToObject(topology, "kind", s.cube.n ? "bcube" : "mesh");
    if (!s.cube.n)
        return;
    cJSON_AddNumberToObject(topology, "n", s.cube.n);
    cJSON_AddNumberToObject(topology, "k", s.cube.k);
    cJSON_AddNumberToObject(topology, "ranks", s.environment.size);
    if (s.environment.size > 1) {
        cJSON_AddNumberToObject(topology, "rank", s.environment.rank);
        cJSON_AddStringToObject(topology, "address",
                                br_bcube_text(&s.cube, s.environment.rank, address));
        cJSON_AddStringToObject(topology, "host", s.host);
    }
    levels = cJSON_AddArrayToObject(topology, "levels");
    for (uint32_t level = 0; level < s.cube.k; level++)
        cJSON_AddItemToArray(levels, level_object(&s, level));
}

static void info_topology_print_level(const cJSON *level)
{
    const char *device = br_info_text(level, "device"), *separator = "";
    const cJSON *neighbour, *rate = cJSON_GetObjectItem(level, "bits_per_second");

    printf("  level %-2d  %-10s", (int)br_info_number(level, "level"),
           *device ? device : "(by discovery)");
    if (rate->valuedouble > 0)
        printf(" %.0f Mb/s", rate->valuedouble / 1e6);
    if (cJSON_HasObjectItem(level, "switch")) {
        printf(" port %d of switch <%d,%d>; neighbours: ", (int)br_info_number(level, "port"),
               (int)br_info_number(level, "level"), (int)br_info_number(level, "switch"));
        cJSON_ArrayForEach(neighbour, cJSON_GetObjectItem(level, "neighbours"))
        {
            printf("%s%d", separator, (int)neighbour->valuedouble);
            separator = ", ";
        }
    }
    printf("\n");
}

void br_info_print_topology(const cJSON *root)
{
    const cJSON *topology = cJSON_GetObjectItem(root, "topology"), *level;

    printf("Topology\n");
    if (*br_info_text(topology, "error")) {
        printf("  %s\n\n", br_info_text(topology, "error"));
        return;
    }
    if (!strcmp(br_info_text(topology, "kind"), "mesh")) {
        printf("  mesh: every rank is linked with all others\n\n");
        return;
    }
    printf("  BCube(%d,%d)", (int)br_info_number(topology, "n"),
           (int)br_info_number(topology, "k"));
    if (cJSON_HasObjectItem(topology, "rank"))
        printf(", %d ranks; rank %d is host %s%s%s", (int)br_info_number(topology, "ranks"),
               (int)br_info_number(topology, "rank"), br_info_text(topology, "address"),
               *br_info_text(topology, "host") ? " " : "", br_info_text(topology, "host"));
    printf("\n");
    cJSON_ArrayForEach(level, cJSON_GetObjectItem(topology, "levels"))
        info_topology_print_level(level);
    printf("\n");
}
