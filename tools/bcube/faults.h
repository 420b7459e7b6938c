/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults planted in a testbed: a list, and what it makes of each NIC and each host. Planting and mending change the list; the
 * network is then set to what the list says, so that faults that overlap (a NIC of a switch that is down) come and go in any
 * order. Pure but for reading and writing the list. Not thread-safe.
 */
#ifndef BR_TOOLS_BCUBE_FAULTS_H
#define BR_TOOLS_BCUBE_FAULTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/bcube/testbed.h"

#define BR_FAULTS_MAX     256
#define BR_FAULT_OPERANDS 3

enum br_fault_kind {
    BR_FAULT_NIC,        /* no cable */
    BR_FAULT_SWITCH,     /* no power */
    BR_FAULT_HOST,       /* no cable at all, the management's included */
    BR_FAULT_LEVEL,      /* all switches of a level */
    BR_FAULT_SWAP,       /* two NICs' cables exchanged */
    BR_FAULT_MOVE,       /* a cable on another switch */
    BR_FAULT_MTU,        /* of the NIC */
    BR_FAULT_SWITCH_MTU, /* of the port at the other end: larger packets vanish */
    BR_FAULT_RATE,       /* of both ends */
    BR_FAULT_ADDRESS,
    BR_FAULT_LOSS, /* at the port, in both directions */
    BR_FAULT_ARP,  /* arp_ignore and arp_announce as Linux has them: answers for any address on any NIC */
    BR_FAULT_RP_FILTER, /* strict */
    BR_FAULT_KINDS
};

struct br_fault {
    enum br_fault_kind kind;
    uint64_t
        operand[BR_FAULT_OPERANDS]; /* in the order of the command line; rate in bit/s, loss in 1/1,000,000 */
    char address[BR_TESTBED_ADDRESS]; /* of BR_FAULT_ADDRESS */
};

struct br_faults {
    int count;
    struct br_fault fault[BR_FAULTS_MAX];
};

/* What one NIC shall be. */
struct br_nic_state {
    bool up;               /* its port has a link */
    uint32_t level, index; /* of the switch that the cable ends at */
    uint32_t mtu, port_mtu;
    uint64_t rate; /* bit/s; 0: unshaped */
    uint32_t loss; /* 1/1,000,000 */
    char address[BR_TESTBED_ADDRESS];
};

/* What one host shall be. */
struct br_host_state {
    bool management;     /* mgmt0 has a link */
    bool arp, rp_filter; /* the sysctls are healthy */
};

/*
 * Understands the words of `braid bcube fault`: KIND OPERAND... [down|up|clear]. *plant is false for up and clear. -EINVAL and others
 * with words that say what is possible.
 */
int br_fault_parse(struct br_fault *fault, bool *plant, const struct br_testbed *testbed, int argc,
                   char *const argv[]);

/* "swap h01 0 1", as the command line has it. */
void br_fault_print(const struct br_fault *fault, const struct br_testbed *testbed, FILE *out);

/* One "KIND OPERANDS  meaning" line each. */
void br_fault_help(FILE *out);

/* Plants; one of the same kind at the same place is replaced. -ENOSPC with words. */
int br_faults_plant(struct br_faults *faults, const struct br_fault *fault);
/* Mends what is planted of this kind at this place. -ENOENT with words when there is nothing. */
int br_faults_mend(struct br_faults *faults, const struct br_fault *fault, const struct br_testbed *testbed);

void br_faults_nic(const struct br_faults *faults, const struct br_testbed *testbed, uint32_t host,
                   uint32_t level, struct br_nic_state *state);
void br_faults_host(const struct br_faults *faults, uint32_t host, struct br_host_state *state);

/* The file `faults` of the testbed; not there: none. */
int br_faults_load(struct br_faults *faults, const struct br_testbed *testbed);
int br_faults_save(const struct br_faults *faults, const struct br_testbed *testbed);

#endif
