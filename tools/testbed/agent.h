/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent of `braid bcube check`: one process on each host, started through reach. It reads one
 * JSON object a line from its standard input, {"do": COMMAND, ...}, and answers each with one line,
 * {"ok": true, ...} or {"ok": false, "error": WORDS}. It ends when its input ends, so a checker
 * that dies leaves nothing behind. It changes no setting of its host. Root makes it see more: raw
 * frames and ARP; without root the probes are IPv6 multicasts.
 *
 * Commands run one after the other in the main thread; listening and serving go on in threads of
 * their own.
 */
#ifndef BR_TOOLS_TESTBED_AGENT_H
#define BR_TOOLS_TESTBED_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#define BR_AGENT_NICS 64

struct br_agent_probe;
struct br_agent_echo;

struct br_agent {
    struct br_agent_probe *probe; /* owned; NULL: not listening */
    struct br_agent_echo *echo;   /* owned; NULL: not serving */
};

/* An Ethernet interface of this host as it is now. */
struct br_agent_nic {
    char name[16];
    int index;
    bool up, carrier;
    uint8_t mac[6];
};

/* Fills up to `room` interfaces, loopback left out. The count; -errno with a message. */
int br_agent_nics(struct br_agent_nic *nics, int room);

/*
 * The commands: 0 with the answer's members in `reply`, -errno with a message. All of them may
 * block, for no longer than the times in the request and about a second.
 */
/* Adds "rdma", the RDMA ports of this host; and the sum of the error counters of those on a NIC. */
void br_agent_rdma(cJSON *reply);
double br_agent_rdma_errors(const cJSON *reply, const char *nic);

int br_agent_facts(struct br_agent *agent, const cJSON *request, cJSON *reply);
int br_agent_listen(struct br_agent *agent, const cJSON *request, cJSON *reply);
int br_agent_send_probes(struct br_agent *agent, const cJSON *request, cJSON *reply);
int br_agent_seen_probes(struct br_agent *agent, const cJSON *request, cJSON *reply);
int br_agent_arp(struct br_agent *agent, const cJSON *request, cJSON *reply);
int br_agent_serve(struct br_agent *agent, const cJSON *request, cJSON *reply);
int br_agent_ping(struct br_agent *agent, const cJSON *request, cJSON *reply);
int br_agent_bulk(struct br_agent *agent, const cJSON *request, cJSON *reply);
int br_agent_trips(struct br_agent *agent, const cJSON *request, cJSON *reply);

/* Ends the threads and frees. NULL is fine. */
void br_agent_probe_close(struct br_agent_probe *probe);
void br_agent_echo_close(struct br_agent_echo *echo);

#endif
