/* SPDX-License-Identifier: BSD-3-Clause */
/* What a host says of its RDMA ports: what the choice of a job would be, and what sysfs shows
 * besides. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/testbed/agent.h"
#include "tools/testbed/json.h"
#include "transport/verbs/probe.h"

/* Devices are seen in all network namespaces: on an emulated host, too, those of the others. */
static bool agent_rdma_is_ours(const struct br_verbs_host *host, const struct br_verbs_port *port)
{
    bool any = port->n_gids == 0;
    for (int i = 0; i < port->n_gids; i++)
        any |= !port->gids[i].foreign;
    return any && (!*port->netdev || br_verbs_interface(&host->inventory, port->netdev));
}

static const struct br_gid *agent_rdma_chosen(const struct br_verbs_port *port)
{
    for (int f = 0; f < BR_GID_FAMILIES; f++)
        if (port->choice.entry[f] >= 0)
            return &port->gids[port->choice.entry[f]];
    return NULL;
}

/* What the vendors' drivers show in sysfs about lossless Ethernet; absent members are not shown. */
static void add_quality(cJSON *object, const struct br_verbs_port *port)
{
    char line[128];
#define ADD(name, ...)                                                                             \
    if (*br_verbs_read_line(line, sizeof line, "", __VA_ARGS__))                                   \
    cJSON_AddStringToObject(object, name, line)
    ADD("pfc", "/sys/class/net/%s/qos/pfc", port->netdev);
    ADD("trust", "/sys/class/net/%s/qos/trust", port->netdev);
    ADD("ecn_np", "/sys/class/net/%s/ecn/roce_np/enable/3", port->netdev);
    ADD("ecn_rp", "/sys/class/net/%s/ecn/roce_rp/enable/3", port->netdev);
    ADD("tos", "/sys/kernel/config/rdma_cm/%s/ports/%d/default_roce_tos", port->device, port->port);
    ADD("traffic_class", "/sys/class/infiniband/%s/tc/%d/traffic_class", port->device, port->port);
#undef ADD
}

/* Sum of those of its error counters that this device has: of the port, of mlx5, of soft-RoCE. */
static double errors_of(const struct br_verbs_port *port)
{
    static const char *const names[] = {
        "counters/symbol_error",
        "counters/link_error_recovery",
        "counters/port_rcv_errors",
        "counters/port_xmit_discards",
        "counters/local_link_integrity_errors",
        "counters/excessive_buffer_overrun_errors",
        "hw_counters/out_of_sequence",
        "hw_counters/packet_seq_err",
        "hw_counters/local_ack_timeout_err",
        "hw_counters/rnr_nak_retry_err",
        "hw_counters/req_cqe_error",
        "hw_counters/resp_cqe_error",
        "hw_counters/rcvd_seq_err",
        "hw_counters/out_of_seq_request",
        "hw_counters/retry_exceeded_err",
        "hw_counters/retry_rnr_exceeded_err",
        "hw_counters/completer_retry_err",
        "hw_counters/send_err",
    };
    double sum = 0;
    char line[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        sum +=
            strtod(br_verbs_read_line(line, sizeof line, "", "/sys/class/infiniband/%s/ports/%d/%s",
                                      port->device, port->port, names[i]),
                   NULL);
    return sum;
}

static void agent_rdma_add_port(cJSON *array, const struct br_verbs_port *port)
{
    const struct br_gid *gid = agent_rdma_chosen(port);
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "device", port->device);
    cJSON_AddNumberToObject(object, "port", port->port);
    cJSON_AddStringToObject(object, "netdev", port->netdev);
    cJSON_AddStringToObject(object, "state", br_verbs_state_name(port->state));
    cJSON_AddStringToObject(object, "firmware", port->firmware);
    cJSON_AddNumberToObject(object, "mtu", port->mtu);
    cJSON_AddStringToObject(object, "what", port->diagnosis.what);
    cJSON_AddStringToObject(object, "remedy", port->diagnosis.remedy);
    cJSON_AddNumberToObject(object, "gid_index", gid ? gid->index : -1);
    cJSON_AddStringToObject(object, "gid_type", gid ? br_gid_type_name(gid->type) : "");
    add_quality(object, port);
    cJSON_AddNumberToObject(object, "errors", port->port ? errors_of(port) : 0);
    cJSON_AddItemToArray(array, object);
}

void br_agent_rdma(cJSON *reply)
{
    cJSON *array = cJSON_AddArrayToObject(reply, "rdma");
    struct br_verbs_host host;
    int rc = br_verbs_host_read(&host);
    if (rc)
        cJSON_AddStringToObject(reply, "rdma_words", br_error_message());
    for (int i = 0; i < host.n_ports && !rc; i++)
        if (agent_rdma_is_ours(&host, &host.ports[i]))
            agent_rdma_add_port(array, &host.ports[i]);
    br_verbs_host_destroy(&host);
}

double br_agent_rdma_errors(const cJSON *reply, const char *nic)
{
    const cJSON *port;
    double sum = 0;
    cJSON_ArrayForEach(port, cJSON_GetObjectItemCaseSensitive(reply, "rdma"))
    {
        if (!strcmp(br_json_text(port, "netdev", ""), nic))
            sum += (double)br_json_number(port, "errors", 0);
    }
    return sum;
}
