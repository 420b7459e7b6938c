/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inventory of a BCube: one YAML file with the shape, the hosts, how to reach them, their NICs,
 * and the names of the switches. doc/bcube.md describes the format. What the file leaves out is
 * filled in from bcube/cabling.h, so `shape: {n: 3, k: 2}` alone is a whole inventory.
 *
 * Reading checks form only: YAML, known keys, numbers, addresses, no more hosts and NICs than the
 * shape has. Whether the parts agree with each other and with the shape is another question
 * (br_inventory_check), so that a tool can show all contradictions at once.
 *
 * An inventory that nobody changes may be read by any thread. Reading blocks in the file.
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_INVENTORY_H
#define BR_PROTOCOL_BOOTSTRAP_INVENTORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bcube/cabling.h"

#define BR_INVENTORY_ACCESS_BYTES 192  /* bytes of what ssh takes, the final zero included */
#define BR_INVENTORY_MTU          1500 /* where the file says nothing */
#define BR_INVENTORY_BYTES        (UINT32_C(32) << 20) /* of a file, at most */

enum br_inventory_access {
    BR_INVENTORY_SSH,       /* host.reach is what ssh takes */
    BR_INVENTORY_EMULATION, /* host.reach is a network namespace of this machine */
    BR_INVENTORY_HERE,      /* all hosts are this machine, with addresses of 127.0.0.0/8 */
};

struct br_inventory_nic {
    char name[BR_NIC_NAME]; /* "": none on this level; with line 0 the file's list ends too early */
    uint32_t address, bits; /* host byte order */
    uint8_t mac[6];         /* all zero: not said */
    char pci[16];           /* "0000:3b:00.0"; "": not said */
    int numa;               /* -1: not said */
    int gid_index;          /* of the RDMA device's GID table; -1: not said */
    uint64_t rate;          /* bit/s; the file's `rate` where the NIC says none; 0: not said */
    uint32_t line;          /* where it stands in the file; 0: filled in */
};

struct br_inventory_host {
    char name[BR_HOST_NAME];
    char access[BR_INVENTORY_ACCESS_BYTES]; /* the name where the file says none */
    uint32_t management;                    /* where other hosts reach it out of band */
    bool missing;                           /* a place of the cube that is empty */
    struct br_inventory_nic *nics;          /* k of them, nics[i] is of level i */
    uint32_t line;
};

/* A switch that has a name of its own. */
struct br_inventory_switch {
    uint32_t level, index;
    char name[BR_HOST_NAME];
    char (*ports)[BR_NIC_NAME]; /* labels of its ports by digit; NULL: the digits */
    uint32_t n_ports;           /* of the list in the file; 0 without one */
    uint32_t line;
};

struct br_inventory {
    /* what is filled in; .cube is the shape, .hosts what the shape says is there */
    struct br_cabling cabling;
    enum br_inventory_access access;
    uint64_t rate; /* bit/s, nominal; 0: not said */
    uint32_t mtu;  /* 1500 where the file says nothing */
    uint32_t n_hosts;
    struct br_inventory_host *hosts; /* by host number */
    uint32_t n_switches;
    struct br_inventory_switch *switches; /* those of the file, sorted by (level, index) */
    struct br_inventory_nic *all_nics;    /* n_hosts * k, what hosts[].nics point into */
    char *file;                           /* name, for error messages */
};

/* Reads a file. On success the caller calls br_inventory_destroy(). -ENOENT, -EACCES, ...; -EINVAL
 * with a message "FILE:LINE: what is wrong and what to write"; -E2BIG; -ENOMEM; *inventory holds
 * nothing then. */
int br_inventory_load(struct br_inventory *inventory, const char *file);

/* The same from memory; `file` is a name for error messages. Never blocks. */
int br_inventory_parse(struct br_inventory *inventory, const char *text, size_t bytes,
                       const char *file);

/* Allocates n_hosts hosts, all with the defaults of inventory->cabling and ->rate. For the reader
 * and br_inventory_default(). -ENOMEM with a message. */
int br_inventory_fill(struct br_inventory *inventory, uint32_t n_hosts);

/* An inventory with all defaults. -ENOMEM with a message. */
int br_inventory_default(struct br_inventory *inventory, const struct br_cabling *cabling);

/* Frees what the inventory holds and sets it to all zero, from which it may also be called. */
void br_inventory_destroy(struct br_inventory *inventory);

/* Writes what br_inventory_parse reads back to the same. -EIO with a message. */
int br_inventory_write(const struct br_inventory *inventory, FILE *out);

/* Finds the number of a host from its name, its number or its digits "[0,1]". -ENOENT with a
 * message. */
int br_inventory_host(const struct br_inventory *inventory, const char *text, uint32_t *host);

/* The switch in this place as the file describes it; NULL: the file does not. Then its name, and
 * the label of a port: `out` holds BR_HOST_NAME bytes and is returned. */
const struct br_inventory_switch *br_inventory_switch(const struct br_inventory *inventory,
                                                      uint32_t level, uint32_t index);
char *br_inventory_switch_name(const struct br_inventory *inventory, uint32_t level, uint32_t index,
                               char *out);
char *br_inventory_port_name(const struct br_inventory *inventory, uint32_t level, uint32_t index,
                             uint32_t port, char *out);

/* ---- inventory_check.c: contradictions within an inventory and between it and its shape ------ */

/* One contradiction. line: where it is in the file; 0 when it is about something that is missing.
 * text: what is wrong and what to write; valid during the call. */
typedef void br_inventory_report(void *user, uint32_t line, const char *text);

/*
 * Calls report (may be NULL) for every contradiction: number of hosts, names, reach, management
 * addresses, missing NICs, addresses that two have, NICs outside the subnet of their switch, MACs
 * and PCI addresses that two have, switches and ports. Returns how many; 0: the inventory is sound;
 * -ENOMEM.
 */
int br_inventory_check(const struct br_inventory *inventory, br_inventory_report *report,
                       void *user);

/* The same as an error: 0, or -EINVAL with the message of the first contradiction, "FILE:LINE:
 * text", and how many more there are. */
int br_inventory_sound(const struct br_inventory *inventory);

#endif
