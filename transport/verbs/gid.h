/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which GID a port speaks with: pure functions over a port's GID table, for any thread.
 *
 * 1. On Ethernet an entry is usable when its type is RoCE v2 and its address is one that a router
 *    takes: no link-local, no loopback, no multicast, none of another network namespace. The number
 *    of an entry means nothing: 0 is the link-local one on soft-RoCE, the RoCE v1 one on mlx5, and
 *    numbers move when addresses come and go.
 * 2. Both ends must speak the same family. A port therefore offers its best entry of each family to
 *    its peers (br_gid_set), and each end takes the first family of enum br_gid_family that both
 *    offer (br_gid_agree): the same at both ends without another message.
 * 3. Whoever names an entry (BRAID_GID_INDEX, gid_index in the inventory) gets it, also a
 *    link-local or RoCE v1 one; then the port offers nothing else.
 * 4. On InfiniBand, fe80::/64 is the usual subnet prefix and entry 0 is the port's own: the first
 *    one there is.
 */
#ifndef BR_TRANSPORT_VERBS_GID_H
#define BR_TRANSPORT_VERBS_GID_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BR_GID_BYTES   16
#define BR_GID_TEXT    46  /* an IPv6 address in words, the final zero included */
#define BR_GID_MESSAGE 400 /* of a choice */

/* The numbers are those of enum ibv_gid_type. */
enum br_gid_type { BR_GID_INFINIBAND, BR_GID_ROCE_V1, BR_GID_ROCE_V2 };

/* In the order of preference. */
enum br_gid_family { BR_GID_IPV4, BR_GID_IPV6, BR_GID_NATIVE, BR_GID_FAMILIES };

/* A valid entry of a port's table. */
struct br_gid {
    uint8_t raw[BR_GID_BYTES]; /* network order; IPv4 as ::ffff:a.b.c.d */
    int index;                 /* in the port's table */
    enum br_gid_type type;
    char netdev[IF_NAMESIZE]; /* the interface it belongs to; "": unknown */
    bool foreign;             /* its address is on no interface of this network namespace */
};

/* What the port is and what the user wants. */
struct br_gid_wish {
    bool infiniband;        /* link layer of the port */
    int index;              /* this entry and no other; -1: any */
    const char *index_from; /* who named it, for the words: "BRAID_GID_INDEX"; with index >= 0 */
    const char *netdev;     /* only entries of this interface; NULL: any */
    const uint8_t *address; /* only this GID; NULL: any */
    /* of several interfaces on the port (VLANs) this one goes first; NULL: the first entry */
    const char *main_netdev;
};

struct br_gid_choice {
    int entry[BR_GID_FAMILIES]; /* places in the table, not GID indexes; -1: none of this family */
    char message[BR_GID_MESSAGE]; /* what was chosen, and of every other entry why not */
};

/* What a peer has to know: the best entry of each family. */
struct br_gid_set {
    uint8_t raw[BR_GID_FAMILIES][BR_GID_BYTES]; /* all zero: none */
    uint8_t type[BR_GID_FAMILIES];              /* enum br_gid_type */
};

const char *br_gid_type_name(enum br_gid_type type); /* "RoCE v2" */
/* "10.0.0.1" or "fd00::1"; returns out, BR_GID_TEXT bytes. */
char *br_gid_text(const uint8_t raw[BR_GID_BYTES], char *out);
/* The GID of an IPv4 or IPv6 address in words; false: it is none. */
bool br_gid_parse(const char *text, uint8_t raw[BR_GID_BYTES]);

/* A router takes it: neither link-local nor loopback nor multicast. */
bool br_gid_is_routable(const uint8_t raw[BR_GID_BYTES]);

/* Why an entry is not to be used, in words; NULL: it can be. */
const char *br_gid_why_not(const struct br_gid *gid, const struct br_gid_wish *wish);

/* Chooses from table[0..n). choice->words are set in any case. -EADDRNOTAVAIL with a message
 * (choice->words): no entry can be used; -EINVAL with a message: the wish names an entry that is
 * not there. */
int br_gid_choose(const struct br_gid *table, int n, const struct br_gid_wish *wish,
                  struct br_gid_choice *choice);

void br_gid_set(const struct br_gid *table, const struct br_gid_choice *choice,
                struct br_gid_set *out);

/* The place in the table of the entry for a peer that made this offer; the peer's GID is
 * theirs->raw[*family]. -EADDRNOTAVAIL with a message: the ends have no family in common, or the
 * same family and different types. */
int br_gid_agree(const struct br_gid *table, const struct br_gid_choice *choice,
                 const struct br_gid_set *theirs, enum br_gid_family *family);

#endif
