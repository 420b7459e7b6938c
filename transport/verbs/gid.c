/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/gid.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static const char *const family_names[BR_GID_FAMILIES] = {"IPv4", "IPv6", "InfiniBand"};
static const uint8_t zero[BR_GID_BYTES];

static bool is_ipv4(const uint8_t *raw)
{
    static const uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    return !memcmp(raw, prefix, sizeof prefix);
}

static enum br_gid_family gid_family(const struct br_gid *gid)
{
    if (gid->type == BR_GID_INFINIBAND)
        return BR_GID_NATIVE;
    return is_ipv4(gid->raw) ? BR_GID_IPV4 : BR_GID_IPV6;
}

const char *br_gid_type_name(enum br_gid_type type)
{
    static const char *const names[] = {"InfiniBand", "RoCE v1", "RoCE v2"};

    return (size_t)type < sizeof names / sizeof *names ? names[type] : "of an unknown type";
}

char *br_gid_text(const uint8_t raw[BR_GID_BYTES], char *out)
{
    if (is_ipv4(raw))
        inet_ntop(AF_INET, raw + 12, out, BR_GID_TEXT);
    else
        inet_ntop(AF_INET6, raw, out, BR_GID_TEXT);
    return out;
}

bool br_gid_parse(const char *text, uint8_t raw[BR_GID_BYTES])
{
    if (inet_pton(AF_INET6, text, raw) == 1)
        return true;
    if (inet_pton(AF_INET, text, raw + 12) != 1)
        return false;
    memset(raw, 0, 10);
    raw[10] = raw[11] = 0xff;
    return true;
}

/* What is wrong with the address itself; NULL: routers take it. */
static const char *gid_unroutable(const uint8_t *raw)
{
    if (is_ipv4(raw)) {
        const uint8_t *ip = raw + 12;
        if (!memcmp(ip, zero, 4))
            return "no address";
        if (ip[0] == 127)
            return "loopback";
        if (ip[0] == 169 && ip[1] == 254)
            return "link-local";
        return ip[0] >= 224 ? "multicast or reserved" : NULL;
    }
    if (raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80)
        return "link-local";
    if (!memcmp(raw, zero, 15) && raw[15] == 1)
        return "loopback";
    return raw[0] == 0xff ? "multicast" : NULL;
}

bool br_gid_is_routable(const uint8_t raw[BR_GID_BYTES])
{
    return memcmp(raw, zero, BR_GID_BYTES) != 0 && !gid_unroutable(raw);
}

const char *br_gid_why_not(const struct br_gid *gid, const struct br_gid_wish *wish)
{
    const char *trouble;

    if (!memcmp(gid->raw, zero, BR_GID_BYTES))
        return "empty";
    if (gid->index > UINT8_MAX)
        return "a queue pair's address holds indexes up to 255 only";
    if (wish->index >= 0)
        return gid->index == wish->index ? NULL : "another one was asked for";
    if (wish->address && memcmp(gid->raw, wish->address, BR_GID_BYTES) != 0)
        return "not the address asked for";
    if (wish->netdev && strcmp(gid->netdev, wish->netdev) != 0)
        return "of another interface than the one asked for";
    if (wish->infiniband)
        return gid->type == BR_GID_INFINIBAND ? NULL : "not an InfiniBand GID";
    if (gid->type != BR_GID_ROCE_V2)
        return gid->type == BR_GID_ROCE_V1 ? "RoCE v1 is not routed" : "not a RoCE v2 GID";
    trouble = gid_unroutable(gid->raw);
    if (trouble)
        return trouble;
    return gid->foreign ? "its address is not in this network namespace" : NULL;
}

static void gid_append(struct br_gid_choice *choice, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void gid_append(struct br_gid_choice *choice, const char *format, ...)
{
    size_t used = strlen(choice->message);
    va_list args;

    va_start(args, format);
    vsnprintf(choice->message + used, sizeof choice->message - used, format, args);
    va_end(args);
}

static void append_entry(struct br_gid_choice *choice, const struct br_gid *gid)
{
    char text[BR_GID_TEXT];

    gid_append(choice, "%d (%s, %s%s%s)", gid->index, br_gid_text(gid->raw, text),
               br_gid_type_name(gid->type), *gid->netdev ? ", " : "", gid->netdev);
}

/* Both can be used. The base interface of the port goes before its VLANs, then the lower index. */
static bool gid_is_better(const struct br_gid *gid, const struct br_gid *than,
                          const struct br_gid_wish *wish)
{
    bool gid_main = wish->main_netdev && !strcmp(gid->netdev, wish->main_netdev);
    bool than_main = wish->main_netdev && !strcmp(than->netdev, wish->main_netdev);

    return gid_main != than_main ? gid_main : gid->index < than->index;
}

static void gid_explain(const struct br_gid *table, int n, const struct br_gid_wish *wish,
                        struct br_gid_choice *choice)
{
    const char *separator = "GID ";

    for (int f = 0; f < BR_GID_FAMILIES; f++) {
        if (choice->entry[f] < 0)
            continue;
        gid_append(choice, "%s", separator);
        append_entry(choice, &table[choice->entry[f]]);
        separator = ", for peers without it ";
    }
    if (wish->index >= 0 && *choice->message)
        gid_append(choice, " as %s says", wish->index_from);
    separator = *choice->message ? "; not "
                : n              ? "no GID can be used: not "
                                 : "the port has no GIDs";
    if (!n)
        gid_append(choice, "%s", separator);
    for (int i = 0; i < n; i++) {
        const char *why_not = br_gid_why_not(&table[i], wish);
        if (choice->entry[gid_family(&table[i])] == i)
            continue;
        gid_append(choice, "%s", separator);
        append_entry(choice, &table[i]);
        gid_append(choice, ": %s", why_not ? why_not : "another one goes before it");
        separator = ", not ";
    }
}

static int gid_refuse(int n, const struct br_gid_wish *wish, const struct br_gid_choice *choice)
{
    if (wish->index >= 0)
        return br_error(EINVAL, "%s names GID %d, which the port does not have; %s",
                        wish->index_from, wish->index,
                        n ? "`braid info` shows its GIDs" : "it has none");
    return br_error(EADDRNOTAVAIL, "%s", choice->message);
}

int br_gid_choose(const struct br_gid *table, int n, const struct br_gid_wish *wish,
                  struct br_gid_choice *choice)
{
    bool any = false;

    *choice = (struct br_gid_choice){.entry = {-1, -1, -1}};
    for (int i = 0; i < n; i++) {
        int *best = &choice->entry[gid_family(&table[i])];
        if (br_gid_why_not(&table[i], wish))
            continue;
        if (*best < 0 || gid_is_better(&table[i], &table[*best], wish))
            *best = i;
        any = true;
    }
    gid_explain(table, n, wish, choice);
    return any ? 0 : gid_refuse(n, wish, choice);
}

void br_gid_set(const struct br_gid *table, const struct br_gid_choice *choice,
                struct br_gid_set *out)
{
    memset(out, 0, sizeof *out);
    for (int f = 0; f < BR_GID_FAMILIES; f++) {
        if (choice->entry[f] < 0)
            continue;
        memcpy(out->raw[f], table[choice->entry[f]].raw, BR_GID_BYTES);
        out->type[f] = (uint8_t)table[choice->entry[f]].type;
    }
}

static void list_families(const uint8_t (*raw)[BR_GID_BYTES], char out[64])
{
    *out = '\0';
    for (int f = 0; f < BR_GID_FAMILIES; f++)
        if (memcmp(raw[f], zero, BR_GID_BYTES) != 0)
            snprintf(out + strlen(out), 64 - strlen(out), "%s%s", *out ? " and " : "",
                     family_names[f]);
    if (!*out)
        snprintf(out, 64, "nothing");
}

int br_gid_agree(const struct br_gid *table, const struct br_gid_choice *choice,
                 const struct br_gid_set *theirs, enum br_gid_family *family)
{
    struct br_gid_set ours;
    char here[64], there[64];

    br_gid_set(table, choice, &ours);
    for (int f = 0; f < BR_GID_FAMILIES; f++) {
        if (choice->entry[f] < 0 || !memcmp(theirs->raw[f], zero, BR_GID_BYTES))
            continue;
        if (theirs->type[f] != ours.type[f])
            return br_error(EADDRNOTAVAIL,
                            "this end speaks %s and the peer %s; leave BRAID_GID_INDEX out, or "
                            "name GIDs of one "
                            "type at both ends",
                            br_gid_type_name(ours.type[f]),
                            br_gid_type_name((enum br_gid_type)theirs->type[f]));
        *family = (enum br_gid_family)f;
        return choice->entry[f];
    }
    list_families((const uint8_t(*)[BR_GID_BYTES])ours.raw, here);
    list_families(theirs->raw, there);
    return br_error(
        EADDRNOTAVAIL,
        "this end's port has GIDs of %s, the peer's of %s: give both ends addresses of one family",
        here, there);
}
