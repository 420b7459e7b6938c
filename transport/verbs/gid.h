/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which GID a port uses. The functions work on a copy of the port's GID table; they may be called
 * from any thread and do not block.
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

#define BR_GID_BYTES   16  /* Bytes of a GID. */
#define BR_GID_TEXT    46  /* Bytes of an IPv6 address as text, the final zero included. */
#define BR_GID_MESSAGE 400 /* Bytes of br_gid_choice.message. */

/* The numbers are those of enum ibv_gid_type. */
enum br_gid_type { BR_GID_INFINIBAND, BR_GID_ROCE_V1, BR_GID_ROCE_V2 };

/* What kind of address a GID is, the preferred one first. */
enum br_gid_family { BR_GID_IPV4, BR_GID_IPV6, BR_GID_NATIVE, BR_GID_FAMILIES };

/* A valid entry of a port's table. */
struct br_gid {
    uint8_t raw[BR_GID_BYTES]; /* In network order; an IPv4 address as ::ffff:a.b.c.d. */
    int index;                 /* The GID index: the number of the entry in the port's table. */
    enum br_gid_type type;
    char netdev[IF_NAMESIZE]; /* The interface that it belongs to; empty when it is unknown. */
    bool foreign;             /* No interface of this network namespace has its address. */
};

/* What the port is and what the user wants. The strings are kept by the caller. */
struct br_gid_wish {
    bool infiniband; /* The link layer of the port is InfiniBand; else it is Ethernet. */
    int index;       /* Only the entry with this GID index; -1 for any. */
    /* With index >= 0: what has named the index, for messages, such as "BRAID_GID_INDEX". */
    const char *index_from;
    const char *netdev;     /* Only entries of this interface; NULL for any. */
    const uint8_t *address; /* Only this GID; NULL for any. */
    /* Of several interfaces on the port (VLANs) this one is preferred; NULL: that of the first
     * entry. */
    const char *main_netdev;
};

struct br_gid_choice {
    /* The chosen entry of each family: an index in the table that was given, not a GID index; -1
     * for none of this family. */
    int entry[BR_GID_FAMILIES];
    char message[BR_GID_MESSAGE]; /* What was chosen, and why each other entry was not. */
};

/* What a port offers to a peer: the best entry of each family. */
struct br_gid_set {
    uint8_t raw[BR_GID_FAMILIES][BR_GID_BYTES]; /* All zero where there is none. */
    uint8_t type[BR_GID_FAMILIES];              /* enum br_gid_type. */
};

/* Returns the name of a type, such as "RoCE v2"; a static string. */
const char *br_gid_type_name(enum br_gid_type type);
/* Writes a GID as text, such as "10.0.0.1" or "fd00::1", to out[0..BR_GID_TEXT). Returns out. */
char *br_gid_text(const uint8_t raw[BR_GID_BYTES], char *out);
/* Writes the GID of an IPv4 or IPv6 address that is given as text to raw. Returns false when the
 * text is no address. */
bool br_gid_parse(const char *text, uint8_t raw[BR_GID_BYTES]);

/* Returns whether a router forwards to this address: it is neither link-local nor loopback nor
 * multicast. */
bool br_gid_is_routable(const uint8_t raw[BR_GID_BYTES]);

/* Returns why an entry cannot be used, a static string, or NULL when it can. */
const char *br_gid_why_not(const struct br_gid *gid, const struct br_gid_wish *wish);

/* Chooses from table[0..n). choice->message is set in any case. Returns 0, or with that message
 * -EADDRNOTAVAIL when no entry can be used, or -EINVAL when the wish names an entry that is not in
 * the table. */
int br_gid_choose(const struct br_gid *table, int n, const struct br_gid_wish *wish,
                  struct br_gid_choice *choice);

/* Writes what the port offers to *out, by its table and the choice from it. */
void br_gid_set(const struct br_gid *table, const struct br_gid_choice *choice,
                struct br_gid_set *out);

/* Chooses the family for a peer that offers `theirs`. Returns the index in the table of this port's
 * entry, and the peer's GID is theirs->raw[*family]; or -EADDRNOTAVAIL with a message when the two
 * ports have no family in common, or different types in the first one that both have. */
int br_gid_agree(const struct br_gid *table, const struct br_gid_choice *choice,
                 const struct br_gid_set *theirs, enum br_gid_family *family);

#endif
