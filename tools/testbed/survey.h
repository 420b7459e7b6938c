/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The survey of a BCube: what the plan says and what was found, side by side. It is plain data:
 * check fills it from the inventory and the agents' answers, diagnose reads it, reports print it.
 * Tests fill it by hand.
 *
 * A port is a planned NIC: (host, level), number host * k + level. A node is an interface that a
 * host really has: number host * BR_SURVEY_NICS + its index. A link is a direction: port to
 * neighbour i of its level, number port * (n - 1) + i.
 */
#ifndef BR_TOOLS_TESTBED_SURVEY_H
#define BR_TOOLS_TESTBED_SURVEY_H

#include <stdbool.h>
#include <stdint.h>

#include "bcube/address.h"

#define BR_SURVEY_NICS      64
#define BR_SURVEY_ADDRESSES 8
#define BR_SURVEY_COUNTERS  9
#define BR_SURVEY_RDMA      16

struct br_cidr {
    uint32_t ip; /* host order; 0: none */
    int prefix;
};

/* An interface as its host describes it. Texts are "" and numbers -1 where the host does not
 * say. */
struct br_nic {
    char name[16];
    uint8_t mac[6];
    bool up, carrier;
    bool speaks; /* it took part in the probes */
    int mtu, numa;
    int64_t speed; /* Mb/s; 0: unknown */
    int rp_filter, arp_ignore, arp_announce;
    char pci[32], driver[32], driver_version[32], firmware[32];
    int n_addresses;
    struct br_cidr addresses[BR_SURVEY_ADDRESSES];
    /* br_survey_counters, around the load */
    uint64_t before[BR_SURVEY_COUNTERS], after[BR_SURVEY_COUNTERS];
};

/* Names of the error counters, in the order of before[] and after[]; NULL ends them. */
extern const char *const br_survey_counters[BR_SURVEY_COUNTERS + 1];

struct br_rdma {
    char device[32], netdev[16], state[24], firmware[32];
    int port, gid_index; /* the entry that a job would take; -1: none */
    int mtu;             /* of its packets, bytes */
    char gid_type[24];
    char what[200], remedy[200]; /* why it cannot be used, and the remedy; "": it can */
    char quality[160]; /* PFC, trust, ECN, DSCP as the driver shows them; "": not at all */
};

struct br_survey_host {
    char name[64];
    char run[192]; /* what stands before a command that is to run there, e.g. "ssh root@10.0.0.1" */
    bool absent;   /* an empty place of a partial cube */
    bool reached;
    char message[256]; /* why it was not; or why it could not listen */
    char hostname[64], kernel[64];
    bool root;
    int64_t memlock; /* bytes, -1: no limit */
    int hugepages;
    int n_nics, n_rdma;
    struct br_nic nics[BR_SURVEY_NICS];
    struct br_rdma rdma[BR_SURVEY_RDMA];
};

/* What the plan says of a NIC, and the interface that it is. */
struct br_survey_port {
    bool absent; /* the plan has no NIC there */
    char nic[16];
    char label[16];         /* of the switch's port */
    struct br_cidr address; /* ip 0: the plan does not say */
    bool has_mac;
    uint8_t mac[6];
    double rate;    /* bit/s; 0: the plan does not say */
    char pci[32];   /* "": the plan does not say */
    int numa;       /* -1: the plan does not say */
    int found;      /* index in the host's nics; -1: it is not there */
    char lldp[136]; /* what the switch says of itself there; "": nothing heard */
};

struct br_survey_link {
    bool probed;
    int sent, got; /* small echoes */
    int path_mtu;  /* bytes; 0: not measured */
    double min_us, median_us;
    double alone, together; /* bit/s of TCP payload; 0: not measured */
    char message[128];      /* of the error; "": none */
};

/* Node `to` heard node `from`. */
struct br_sound {
    uint32_t from, to;
    uint32_t count;
};

/* On node `on`, somebody with this MAC answered for this address. */
struct br_arp_answer {
    uint32_t on;
    uint32_t ip;
    uint8_t mac[6];
};

struct br_survey {
    struct br_bcube cube;
    int mtu;     /* planned, of all NICs */
    int n_hosts; /* cube.hosts, or fewer in a partial cube */
    struct br_survey_host *hosts;
    struct br_survey_port *ports;
    struct br_survey_link *links;
    char (*switches)[64]; /* names, number level * n^(k-1) + index */
    struct br_sound *sounds;
    int n_sounds, max_sounds;
    struct br_arp_answer *answers;
    int n_answers, max_answers;
    bool probed, arped, loaded; /* these parts were measured */
};

/* An empty survey of `hosts` hosts; ports named eth<level>, nothing found. -ENOMEM with a
 * message. */
int br_survey_init(struct br_survey *survey, const struct br_bcube *cube, int hosts);
void br_survey_destroy(struct br_survey *survey); /* also of a zeroed one */

int br_survey_add_sound(struct br_survey *survey, uint32_t from, uint32_t to, uint32_t count);
int br_survey_add_answer(struct br_survey *survey, const struct br_arp_answer *answer);

/* Finds the interface of each port: by name; else, unless the interface has another port's name, by
 * MAC, then by address, then by the probes that it receives. Called again after the probes. */
void br_survey_match(struct br_survey *survey);

uint32_t br_survey_port_of(const struct br_survey *survey, uint32_t host, uint32_t level);
uint32_t br_survey_host_of(const struct br_survey *survey, uint32_t port);
uint32_t br_survey_level_of(const struct br_survey *survey, uint32_t port);
/* number, as in `switches` */
uint32_t br_survey_switch_of(const struct br_survey *survey, uint32_t port);
/* The port of a node; -1: a NIC that is not planned. */
int br_survey_port_of_node(const struct br_survey *survey, uint32_t node);
/* The interface of a port; NULL: the host was not reached or has none. */
const struct br_nic *br_survey_nic(const struct br_survey *survey, uint32_t port);
/* It is there, up, and has a carrier. */
bool br_survey_alive(const struct br_survey *survey, uint32_t port);
/* the port it leads to */
uint32_t br_survey_link_end(const struct br_survey *survey, uint32_t link);
/* the plan has both ends */
bool br_survey_link_is(const struct br_survey *survey, uint32_t link);
/* how many numbers there are */
uint32_t br_survey_links(const struct br_survey *survey);
uint32_t br_survey_ports(const struct br_survey *survey);

/* "eth0 of h04" and "port 2 of switch s0-1"; out: 160 bytes. Return out. */
char *br_survey_nic_text(const struct br_survey *survey, uint32_t port, char out[160]);
char *br_survey_switch_text(const struct br_survey *survey, uint32_t port, char out[160]);

/* The command that runs CMD on a host, for a remedy: "ssh root@10.0.0.1 CMD". out: 384
 * bytes. */
char *br_survey_command(const struct br_survey *survey, uint32_t host, char out[384],
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
