/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of an emulated BCube: its shape and settings, the names of all that it is made of,
 * and the state folder that outlives the command that made it: /run/braid/NAME of root,
 * $XDG_RUNTIME_DIR/braid/NAME of others.
 *
 * 1. The file `testbed` says the settings, from which every name follows. It is there before the
 *    first thing is made and goes after the last one, so that whatever was killed when, `down`
 *    knows what may be there.
 * 2. Whoever makes, changes or removes a testbed holds a lock on its folder. The kernel lets it go
 *    when the holder dies: a testbed that is not ready and not locked is half made.
 * 3. `inventory.yaml` is for users and the other commands; `faults` lists the injected faults
 *    (faults.h).
 */
#ifndef BR_TOOLS_TESTBED_TESTBED_H
#define BR_TOOLS_TESTBED_TESTBED_H

#include <stdbool.h>
#include <stdint.h>

#include "bcube/cabling.h"
#include "tools/testbed/namespace.h"

#define BR_TESTBED_NAME      24 /* bytes of a testbed's name, the final zero included */
#define BR_TESTBED_HOST      BR_HOST_NAME
#define BR_TESTBED_LINK      16 /* of a link's name: the kernel's limit */
#define BR_TESTBED_ADDRESS   BR_ADDRESS_TEXT
#define BR_TESTBED_MAC       18
#define BR_TESTBED_FOLDER    128
#define BR_TESTBED_HOSTS_MAX 1000 /* a bridge has 1023 ports, and the management network is one */

#define BR_TESTBED_DEFAULT        "bcube"
#define BR_TESTBED_INVENTORY      "inventory.yaml"
#define BR_TESTBED_MANAGEMENT_NIC "mgmt0"

struct br_testbed {
    char name[BR_TESTBED_NAME];
    struct br_bcube cube;
    uint32_t hosts;            /* that exist: 0..hosts-1 */
    struct br_cabling cabling; /* of these; br_testbed_lay() */
    uint64_t rate;             /* bit/s of each NIC; 0: unshaped */
    uint32_t mtu;
    bool loopback; /* addresses of 127/8 instead of namespaces */
    bool ready;    /* made completely, and `down` has not begun */
    char folder[BR_TESTBED_FOLDER];
    int lock; /* the locked folder; -1: not ours */
};

/* ---- names; pure ----------------------------------------------------------------------------- */

/* Fills in `cabling` from cube, hosts and loopback. -EINVAL, -ENOSPC with a message. */
int br_testbed_lay(struct br_testbed *testbed);

/* 0; -EINVAL with a message: letters, digits and '-', beginning with a letter. */
int br_testbed_check_name(const char *name);

char *br_testbed_host_name(const struct br_testbed *testbed, uint32_t host,
                           char out[BR_TESTBED_HOST]);
/* A name as above, a number or "[0,2]". -EINVAL, -ENOENT (host_max) with a message. */
int br_testbed_parse_host(const struct br_testbed *testbed, const char *text, uint32_t *host);

/* The namespaces: of a host, and of all switches. */
char *br_testbed_host_space(const struct br_testbed *testbed, uint32_t host,
                            char out[BR_NAMESPACE_NAME]);
char *br_testbed_switch_space(const struct br_testbed *testbed, char out[BR_NAMESPACE_NAME]);

/* The NIC of a level in the host; its port and the port's bridge in the namespace of the switches.
 * In loopback the NIC's name is its address. */
char *br_testbed_nic(const struct br_testbed *testbed, uint32_t host, uint32_t level,
                     char out[BR_TESTBED_ADDRESS]);
char *br_testbed_port(const struct br_testbed *testbed, uint32_t host, uint32_t level,
                      char out[BR_TESTBED_LINK]);
char *br_testbed_bridge(uint32_t level, uint32_t index, char out[BR_TESTBED_LINK]);
char *br_testbed_mac(uint32_t host, uint32_t level, char out[BR_TESTBED_MAC]);

/* "10.0.0.1/24" of a NIC, "10.255.0.1/16" of mgmt0, and the latter without the prefix. */
char *br_testbed_address(const struct br_testbed *testbed, uint32_t host, uint32_t level,
                         char out[BR_TESTBED_ADDRESS]);
char *br_testbed_management(const struct br_testbed *testbed, uint32_t host,
                            char out[BR_TESTBED_ADDRESS]);
char *br_testbed_management_ip(const struct br_testbed *testbed, uint32_t host,
                               char out[BR_TESTBED_ADDRESS]);

/* Entries in the kernel's neighbour tables while a job of all hosts runs: at most one for each
 * neighbour of each host, and on the management network from and to host 0. */
uint32_t br_testbed_neighbours(const struct br_testbed *testbed);

/* ---- the state folder ------------------------------------------------------------------------ */

/* Makes the folder and locks it. The name must be set and checked. -EEXIST with a message when
 * there is such a testbed. */
int br_testbed_create(struct br_testbed *testbed);

/* Writes the settings; all of them or none. */
int br_testbed_save(const struct br_testbed *testbed);

/*
 * Finds a testbed; name NULL: the only one. 0; -ENOENT there is none, or several and no name, with
 * words. With `lock` it is locked until br_testbed_close(): -EBUSY with a message when another
 * command works on it for more than some seconds. A folder without settings, whose maker was killed
 * at once, has cube.n == 0.
 */
int br_testbed_open(struct br_testbed *testbed, const char *name, bool lock);
void br_testbed_close(struct br_testbed *testbed);

/* 0; waits some seconds for a command that makes or removes it. -EAGAIN with a message when it
 * takes longer, or it is half made; -ENOENT when it is gone. */
int br_testbed_check_ready(struct br_testbed *testbed);

/* Writes BR_TESTBED_INVENTORY. */
int br_testbed_write_inventory(const struct br_testbed *testbed);

/* Removes the folder and what is in it. */
int br_testbed_forget(struct br_testbed *testbed);

/* Names of all testbeds of this user, at most `max`. Returns how many. */
int br_testbed_list(char names[][BR_TESTBED_NAME], int max);

/* FOLDER/file. */
char *br_testbed_path(const struct br_testbed *testbed, const char *file,
                      char out[BR_TESTBED_FOLDER + 32]);

#endif
