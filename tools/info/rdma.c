/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/info/info.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "transport/verbs/probe.h"

/* of the interface, which RoCE's largest packets of 4096 bytes fit into with their headers */
#define FULL_MTU 4500

static void add_diagnosis(cJSON *object, const struct br_verbs_diagnosis *diagnosis)
{
    cJSON_AddStringToObject(object, "what", diagnosis->what);
    cJSON_AddStringToObject(object, "remedy", diagnosis->remedy);
}

static bool is_chosen(const struct br_verbs_port *port, int entry)
{
    for (int f = 0; f < BR_GID_FAMILIES; f++)
        if (port->choice.entry[f] == entry)
            return true;
    return false;
}

static cJSON *gid_object(const struct br_verbs_port *port, int entry)
{
    const struct br_gid *gid = &port->gids[entry];
    const char *why_not = br_gid_why_not(gid, &port->wish);
    bool chosen = is_chosen(port, entry);
    cJSON *object = cJSON_CreateObject();
    char text[BR_GID_TEXT];

    cJSON_AddNumberToObject(object, "index", gid->index);
    cJSON_AddStringToObject(object, "gid", br_gid_text(gid->raw, text));
    cJSON_AddStringToObject(object, "type", br_gid_type_name(gid->type));
    cJSON_AddStringToObject(object, "netdev", gid->netdev);
    cJSON_AddBoolToObject(object, "chosen", chosen);
    if (!chosen)
        cJSON_AddStringToObject(object, "why_not",
                                why_not ? why_not : "another one goes before it");
    else if (port->wish.index >= 0)
        cJSON_AddStringToObject(object, "chosen_by", port->wish.index_from);
    return object;
}

static cJSON *port_object(const struct br_verbs_port *port)
{
    cJSON *object = cJSON_CreateObject(), *gids;

    cJSON_AddStringToObject(object, "name", port->name);
    cJSON_AddStringToObject(object, "device", port->device);
    cJSON_AddBoolToObject(object, "usable", !*port->diagnosis.what);
    if (*port->diagnosis.what)
        add_diagnosis(object, &port->diagnosis);
    cJSON_AddNumberToObject(object, "numa_node", port->numa_node);
    cJSON_AddNumberToObject(object, "port", port->port);
    if (!port->port)
        return object;
    cJSON_AddStringToObject(object, "netdev", port->netdev);
    cJSON_AddStringToObject(object, "link_layer", port->infiniband ? "InfiniBand" : "Ethernet");
    cJSON_AddStringToObject(object, "state", br_verbs_state_name(port->state));
    cJSON_AddNumberToObject(object, "bits_per_second", (double)port->bits_per_second);
    cJSON_AddNumberToObject(object, "mtu", port->mtu);
    cJSON_AddNumberToObject(object, "max_mtu", port->max_mtu);
    cJSON_AddStringToObject(object, "firmware", port->firmware);
    gids = cJSON_AddArrayToObject(object, "gids");
    for (int i = 0; i < port->n_gids; i++)
        cJSON_AddItemToArray(gids, gid_object(port, i));
    return object;
}

void br_info_gather_rdma(cJSON *root)
{
    cJSON *rdma = cJSON_AddObjectToObject(root, "rdma"), *diagnoses, *ports;
    struct br_verbs_host host;

    if (br_verbs_host_read(&host)) {
        cJSON_AddStringToObject(rdma, "error", br_error_message());
        br_verbs_host_destroy(&host);
        return;
    }
    diagnoses = cJSON_AddArrayToObject(rdma, "diagnoses");
    for (int i = 0; i < host.n_diagnoses; i++) {
        cJSON *object = cJSON_CreateObject();
        add_diagnosis(object, &host.diagnoses[i]);
        cJSON_AddItemToArray(diagnoses, object);
    }
    ports = cJSON_AddArrayToObject(rdma, "ports");
    for (int i = 0; i < host.n_ports; i++)
        cJSON_AddItemToArray(ports, port_object(&host.ports[i]));
    br_verbs_host_destroy(&host);
}

static void print_diagnosis(const cJSON *object, const char *name, const char *verdict)
{
    printf("  %-10s %s%s\n", name, verdict, br_info_text(object, "what"));
    if (*br_info_text(object, "remedy"))
        printf("  %-10s   remedy: %s\n", "", br_info_text(object, "remedy"));
}

static void print_facts(const cJSON *port)
{
    double mtu = br_info_number(port, "mtu"), max = br_info_number(port, "max_mtu");
    bool ethernet = !strcmp(br_info_text(port, "link_layer"), "Ethernet");
    const char *netdev = br_info_text(port, "netdev");

    printf("  %-10s %s%s%s, %s", br_info_text(port, "name"), br_info_text(port, "link_layer"),
           *netdev ? " on " : "", netdev, br_info_text(port, "state"));
    if (br_info_number(port, "bits_per_second") > 0)
        printf(", %.4g Gb/s", br_info_number(port, "bits_per_second") / 1e9);
    printf(", MTU %.0f", mtu);
    if (mtu < max)
        printf(" of %.0f", max);
    if (br_info_number(port, "numa_node") >= 0)
        printf(", NUMA node %.0f", br_info_number(port, "numa_node"));
    printf(", firmware %s\n", br_info_text(port, "firmware"));
    if (mtu < max && ethernet && *netdev)
        printf("  %-10s   for the full MTU, here and along the way: ip link set %s mtu %d\n", "",
               netdev, FULL_MTU);
}

static void print_port(const cJSON *port)
{
    const char *name = br_info_text(port, "name");
    const cJSON *gid;

    if (br_info_number(port, "port") > 0) {
        print_facts(port);
        name = "";
    }
    cJSON_ArrayForEach(gid, cJSON_GetObjectItem(port, "gids"))
    {
        const char *netdev = br_info_text(gid, "netdev");
        const char *by = br_info_text(gid, "chosen_by");
        bool chosen = cJSON_IsTrue(cJSON_GetObjectItem(gid, "chosen"));
        printf("  %-10s   GID %.0f: %s, %s%s%s: %s%s%s%s\n", "", br_info_number(gid, "index"),
               br_info_text(gid, "gid"), br_info_text(gid, "type"), *netdev ? ", " : "", netdev,
               chosen ? "taken" : br_info_text(gid, "why_not"), *by ? ", as " : "", by,
               *by ? " says" : "");
    }
    if (cJSON_IsFalse(cJSON_GetObjectItem(port, "usable")))
        print_diagnosis(port, name, "not usable: ");
}

void br_info_print_rdma(const cJSON *root)
{
    const cJSON *rdma = cJSON_GetObjectItem(root, "rdma"), *item;

    printf("RDMA\n");
    if (*br_info_text(rdma, "error"))
        printf("  %s\n", br_info_text(rdma, "error"));
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(rdma, "ports")) print_port(item);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(rdma, "diagnoses"))
        print_diagnosis(item, "problem", "");
    printf("\n");
}
