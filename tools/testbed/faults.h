/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults injected into a testbed: a list, and the state that it gives each NIC and each host.
 * Injecting and clearing change the list; the network is then set to what the list says, so that
 * faults that overlap (a NIC of a switch that is down) come and go in any order. Pure but for
 * reading and writing the list. Not thread-safe.
 */
#ifndef BR_TOOLS_TESTBED_FAULTS_H
#define BR_TOOLS_TESTBED_FAULTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/testbed/testbed.h"

#define BR_FAULTS_MAX     256
#define BR_FAULT_OPERANDS 3
#define BR_FAULT_TEXT     BR_TESTBED_ADDRESS

enum br_fault_kind {
    BR_FAULT_NIC,        /* no cable */
    BR_FAULT_SWITCH,     /* no power */
    BR_FAULT_HOST,       /* no cable at all, the management's included */
    BR_FAULT_LEVEL,      /* all switches of a level */
    BR_FAULT_MISSING,    /* the host has no such NIC */
    BR_FAULT_OFF,        /* as after `ip link set eth0 down` */
    BR_FAULT_SWAP,       /* two NICs' cables exchanged */
    BR_FAULT_MOVE,       /* a cable on another switch */
    BR_FAULT_JOIN,       /* a cable between two switches */
    BR_FAULT_MUTE,       /* the switch has power and passes nothing */
    BR_FAULT_DEAF,       /* nothing arrives at the NIC; what it sends does */
    BR_FAULT_LOSS,       /* at the port, in both directions */
    BR_FAULT_RATE,       /* of both ends */
    BR_FAULT_MTU,        /* of the NIC */
    BR_FAULT_SWITCH_MTU, /* of the port at the other end: larger packets vanish */
    BR_FAULT_ADDRESS,
    BR_FAULT_MAC,
    BR_FAULT_NAME,
    BR_FAULT_ARP, /* arp_ignore and arp_announce as Linux has them: answers for any address on any
                     NIC */
    BR_FAULT_RP_FILTER, /* strict */
    BR_FAULT_KINDS
};

struct br_fault {
    enum br_fault_kind kind;
    /* In the order of the command line; rate in bit/s, loss in 1/1,000,000, a switch as level << 32
     * | index. */
    uint64_t operand[BR_FAULT_OPERANDS];
    char text[BR_FAULT_TEXT]; /* the operand of those that need one: an address, a MAC, a name */
};

struct br_faults {
    int count;
    struct br_fault fault[BR_FAULTS_MAX];
};

/* What one NIC shall be. */
struct br_nic_state {
    bool missing; /* all that follows counts only without this */
    bool up;      /* its port has a link */
    bool off;
    uint32_t level, index; /* of the switch that the cable ends at */
    uint32_t mtu, port_mtu;
    uint64_t rate;                    /* bit/s; 0: unshaped */
    uint32_t loss_in, loss_out;       /* of the port, 1/1,000,000; out: what goes to the NIC */
    char address[BR_TESTBED_ADDRESS]; /* "": none */
    char mac[BR_TESTBED_MAC], name[BR_TESTBED_ADDRESS];
};

/* What one host shall be. */
struct br_host_state {
    bool management;     /* mgmt0 has a link */
    bool arp, rp_filter; /* the sysctls are healthy */
};

/*
 * Parses the operands of `braid bcube fault`: KIND OPERAND... [down|up|clear]. *inject is false
 * for up and clear. -EINVAL and others with a message that says what is possible.
 */
int br_fault_parse(struct br_fault *fault, bool *inject, const struct br_testbed *testbed, int argc,
                   char *const argv[]);

/* "swap h01 0 1", as the command line has it. */
void br_fault_print(const struct br_fault *fault, const struct br_testbed *testbed, FILE *out);

/* One "KIND OPERANDS  meaning" line each. */
void br_fault_help(FILE *out);

/* Injects; one of the same kind at the same place is replaced. -ENOSPC with a message. */
int br_faults_inject(struct br_faults *faults, const struct br_fault *fault);
/* Clears the fault of this kind at this place. -ENOENT with a message when there is
 * nothing. */
int br_faults_clear(struct br_faults *faults, const struct br_fault *fault,
                    const struct br_testbed *testbed);

void br_faults_nic(const struct br_faults *faults, const struct br_testbed *testbed, uint32_t host,
                   uint32_t level, struct br_nic_state *state);
void br_faults_host(const struct br_faults *faults, uint32_t host, struct br_host_state *state);

/* The file `faults` of the testbed; not there: none. */
int br_faults_load(struct br_faults *faults, const struct br_testbed *testbed);
int br_faults_save(const struct br_faults *faults, const struct br_testbed *testbed);

#endif
