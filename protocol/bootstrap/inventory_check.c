/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contradictions in an inventory.
 *
 * 1. Values that must be unique are collected into one array and sorted, so that equal ones stand
 *    side by side: n log n for any number of hosts.
 * 2. The inventory does not say which subnet a switch has. It is the one in which most of its NICs
 *    are; among equals the one of bcube/cabling.h. NICs in other subnets are wrong. After that no
 *    two switches may overlap.
 */
#include "protocol/bootstrap/inventory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct check {
    const struct br_inventory *inventory;
    br_inventory_report *report;
    void *user;
    int count;
};

/* Something that only one may have. */
struct item {
    uint64_t number;  /* compared first */
    const char *text; /* then this; NULL: nothing */
    uint32_t line, host;
    int level; /* of the NIC that has it; -1: the host itself */
};

/* The subnet of a switch. */
struct subnet {
    uint32_t first, last, line, level, index;
};

__attribute__((format(printf, 3, 4))) static void
inventory_check_find(struct check *check, uint32_t line, const char *format, ...)
{
    char text[BR_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    check->count++;
    if (check->report)
        check->report(check->user, line, text);
}

static int inventory_check_by_value(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    int order = x->text ? strcmp(x->text, y->text) : 0;
    if (order)
        return order;
    if (x->host != y->host)
        return x->host < y->host ? -1 : 1;
    return x->level < y->level ? -1 : x->level > y->level;
}

static void inventory_check_name_of(const struct check *check, const struct item *item, char *out,
                                    size_t bytes)
{
    const struct br_inventory_host *host = &check->inventory->hosts[item->host];
    if (item->level < 0)
        snprintf(out, bytes, "%s", host->name);
    else
        snprintf(out, bytes, "%s %s", host->name, host->nics[item->level].name);
}

static void find_equals(struct check *check, struct item *items, size_t count, const char *what)
{
    char first[128], second[128], address[BR_ADDRESS_TEXT];
    if (count)
        qsort(items, count, sizeof *items, inventory_check_by_value);
    for (size_t i = 1; i < count; i++) {
        const struct item *a = &items[i - 1], *b = &items[i];
        if (a->number != b->number || (a->text && strcmp(a->text, b->text) != 0))
            continue;
        inventory_check_name_of(check, a, first, sizeof first);
        inventory_check_name_of(check, b, second, sizeof second);
        const char *value = a->text;
        if (!value && a->number <= UINT32_MAX)
            value = br_address_text((uint32_t)a->number, 33, address);
        inventory_check_find(check, b->line,
                             "%s has the same %s%s%s as %s (line %u): give it another one", second,
                             what, value ? " " : "", value ? value : "", first, a->line);
    }
}

static uint64_t mac_number(const uint8_t mac[6])
{
    uint64_t number = 0;
    for (int i = 0; i < 6; i++)
        number = number << 8 | mac[i];
    return number;
}

/* The line of a NIC, or of its host when the NIC is filled in. */
static uint32_t nic_line(const struct br_inventory *inventory, uint32_t host, uint32_t level)
{
    uint32_t line = inventory->hosts[host].nics[level].line;
    return line ? line : inventory->hosts[host].line;
}

/* Names, ways to reach and MACs; addresses of NICs and management share one name space. */
static void check_unique(struct check *check, struct item *items)
{
    const struct br_inventory *inventory = check->inventory;
    const struct br_inventory_host *hosts = inventory->hosts;
    size_t names = 0, ways = 0, addresses = 0, macs = 0;
    for (uint32_t h = 0; h < inventory->n_hosts; h++)
        items[names++] = (struct item){0, hosts[h].name, hosts[h].line, h, -1};
    find_equals(check, items, names, "name");
    for (uint32_t h = 0; h < inventory->n_hosts && inventory->access != BR_INVENTORY_HERE; h++)
        if (!hosts[h].missing)
            items[ways++] = (struct item){0, hosts[h].access, hosts[h].line, h, -1};
    find_equals(check, items, ways, "reach");
    for (uint32_t h = 0; h < inventory->n_hosts; h++) {
        if (hosts[h].missing)
            continue;
        items[addresses++] = (struct item){hosts[h].management, NULL, hosts[h].line, h, -1};
        for (uint32_t l = 0; l < inventory->cabling.cube.k; l++)
            if (hosts[h].nics[l].name[0])
                items[addresses++] = (struct item){hosts[h].nics[l].address, NULL,
                                                   nic_line(inventory, h, l), h, (int)l};
    }
    find_equals(check, items, addresses, "address");
    for (uint32_t h = 0; h < inventory->n_hosts; h++)
        for (uint32_t l = 0; l < inventory->cabling.cube.k && !hosts[h].missing; l++)
            if (mac_number(hosts[h].nics[l].mac))
                items[macs++] = (struct item){mac_number(hosts[h].nics[l].mac) | UINT64_C(1) << 63,
                                              NULL, nic_line(inventory, h, l), h, (int)l};
    find_equals(check, items, macs, "MAC");
}

static void check_host(struct check *check, uint32_t number)
{
    const struct br_inventory *inventory = check->inventory;
    const struct br_inventory_host *host = &inventory->hosts[number];
    char text[BR_ADDRESS_TEXT];
    for (uint32_t level = 0; level < inventory->cabling.cube.k; level++) {
        const struct br_inventory_nic *nic = &host->nics[level];
        uint32_t line = nic_line(inventory, number, level), mask = br_address_mask(nic->bits);
        struct br_cable cable;
        br_cabling_cable(&inventory->cabling, number, level, &cable);
        if (!nic->name[0]) {
            if (!nic->line) /* else it is said that there is none */
                inventory_check_find(check, line,
                                     "%s has no NIC for level %u: write - {name: %s, address: %s} "
                                     "as number %u of its nics, "
                                     "or ~",
                                     host->name, level, cable.nic,
                                     br_address_text(cable.address, cable.bits, text), level + 1);
            continue;
        }
        if (nic->mac[0] & 1)
            inventory_check_find(
                check, line, "%s %s: its MAC is a multicast one; look at it again with `ip link`",
                host->name, nic->name);
        if (!(nic->address & ~mask) || !(~nic->address & ~mask))
            inventory_check_find(
                check, line, "%s %s: no host can have %s, the %s address of its subnet", host->name,
                nic->name, br_address_text(nic->address, nic->bits, text),
                nic->address & ~mask ? "broadcast" : "network");
        for (uint32_t other = 0; other < level; other++)
            if (!strcmp(host->nics[other].name, nic->name) &&
                inventory->access != BR_INVENTORY_HERE)
                inventory_check_find(check, line, "%s: its NICs of level %u and %u both are %s",
                                     host->name, other, level, nic->name);
    }
}

static const struct br_inventory_nic *nic_at(const struct br_inventory *inventory, uint32_t level,
                                             uint32_t index, uint32_t port, uint32_t *host)
{
    *host = br_bcube_switch_host(&inventory->cabling.cube, level, index, port);
    if (*host >= inventory->n_hosts || inventory->hosts[*host].missing)
        return NULL;
    const struct br_inventory_nic *nic = &inventory->hosts[*host].nics[level];
    return nic->name[0] ? nic : NULL;
}

static bool is_in(const struct br_inventory_nic *nic, uint32_t address, uint32_t bits)
{
    return nic->bits == bits && !((nic->address ^ address) & br_address_mask(bits));
}

/* The subnet that most NICs of a switch are in, by Boyer and Moore's vote: exact for a majority.
 * Without one it is the planned one. */
static void choose_subnet(const struct br_inventory *inventory, uint32_t level, uint32_t index,
                          uint32_t *address, uint32_t *bits)
{
    const struct br_inventory_nic *winner = NULL;
    uint32_t host, votes = 0, count = 0, all = 0;
    for (uint32_t port = 0; port < inventory->cabling.cube.n; port++) {
        const struct br_inventory_nic *nic = nic_at(inventory, level, index, port, &host);
        if (!nic)
            continue;
        if (!votes)
            winner = nic;
        votes += is_in(nic, winner->address, winner->bits) ? 1u : -1u;
    }
    for (uint32_t port = 0; port < inventory->cabling.cube.n; port++) {
        const struct br_inventory_nic *nic = nic_at(inventory, level, index, port, &host);
        all += nic != NULL;
        count += nic && winner && is_in(nic, winner->address, winner->bits);
    }
    *address = br_cabling_subnet(&inventory->cabling, level, index);
    *bits = inventory->cabling.subnet_bits;
    if (2 * count > all) {
        *address = winner->address & br_address_mask(winner->bits);
        *bits = winner->bits;
    }
}

/* Everybody on the switch against its subnet, which goes to *subnet. false: nobody is on it. */
static bool inventory_check_check_switch(struct check *check, uint32_t level, uint32_t index,
                                         struct subnet *subnet)
{
    const struct br_inventory *inventory = check->inventory;
    char have[BR_ADDRESS_TEXT], want[BR_ADDRESS_TEXT], write[BR_ADDRESS_TEXT], name[BR_HOST_NAME];
    uint32_t address, bits, host;
    bool used = false;
    choose_subnet(inventory, level, index, &address, &bits);
    for (uint32_t port = 0; port < inventory->cabling.cube.n; port++) {
        const struct br_inventory_nic *nic = nic_at(inventory, level, index, port, &host);
        if (!nic)
            continue;
        if (is_in(nic, address, bits)) {
            if (!used)
                *subnet = (struct subnet){address, address | ~br_address_mask(bits),
                                          nic_line(inventory, host, level), level, index};
            used = true;
            continue;
        }
        inventory_check_find(check, nic_line(inventory, host, level),
                             "%s %s: %s is not in %s, the subnet of switch %s: write %s",
                             inventory->hosts[host].name, nic->name,
                             br_address_text(nic->address, nic->bits, have),
                             br_address_text(address, bits, want),
                             br_inventory_switch_name(inventory, level, index, name),
                             br_address_text(address + port + 1, bits, write));
    }
    return used;
}

static int by_first(const void *a, const void *b)
{
    const struct subnet *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

static void check_overlaps(struct check *check, struct subnet *subnets, size_t count)
{
    const struct br_inventory *inventory = check->inventory;
    char a[BR_HOST_NAME], b[BR_HOST_NAME];
    size_t widest = 0;
    if (count)
        qsort(subnets, count, sizeof *subnets, by_first);
    for (size_t i = 1; i < count; i++) {
        const struct subnet *x = &subnets[widest], *y = &subnets[i];
        if (y->first <= x->last)
            inventory_check_find(
                check, y->line,
                "switches %s and %s (line %u) have subnets that overlap: each needs one of its own",
                br_inventory_switch_name(inventory, y->level, y->index, b),
                br_inventory_switch_name(inventory, x->level, x->index, a), x->line);
        if (y->last > x->last)
            widest = i;
    }
    for (uint32_t h = 0; h < inventory->n_hosts; h++) {
        uint32_t management = inventory->hosts[h].management;
        size_t low = 0, high = count;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (subnets[middle].first <= management)
                low = middle + 1;
            else
                high = middle;
        }
        if (low && !inventory->hosts[h].missing && management <= subnets[low - 1].last)
            inventory_check_find(check, inventory->hosts[h].line,
                                 "%s: its management address is in the subnet of switch %s; the "
                                 "management network must be "
                                 "another one",
                                 inventory->hosts[h].name,
                                 br_inventory_switch_name(inventory, subnets[low - 1].level,
                                                          subnets[low - 1].index, a));
    }
}

static void check_named(struct check *check)
{
    const struct br_inventory *inventory = check->inventory;
    for (uint32_t i = 0; i < inventory->n_switches; i++) {
        const struct br_inventory_switch *at = &inventory->switches[i];
        if (i && at[-1].level == at->level && at[-1].index == at->index)
            inventory_check_find(check, at->line,
                                 "the switch of level %u and index %u stands in line %u already",
                                 at->level, at->index, at[-1].line);
        if (at->n_ports && at->n_ports != inventory->cabling.cube.n)
            inventory_check_find(
                check, at->line,
                "switch <%u,%u> lists %u ports, but %u hosts are on it: one for each", at->level,
                at->index, at->n_ports, inventory->cabling.cube.n);
        for (uint32_t a = 0; a < at->n_ports; a++)
            for (uint32_t b = 0; b < a && b < 256; b++)
                if (!strcmp(at->ports[a], at->ports[b]))
                    inventory_check_find(check, at->line, "switch <%u,%u> lists port %s twice",
                                         at->level, at->index, at->ports[a]);
    }
}

int br_inventory_check(const struct br_inventory *inventory, br_inventory_report *report,
                       void *user)
{
    struct check check = {inventory, report, user, 0};
    const struct br_bcube *cube = &inventory->cabling.cube;
    uint32_t switches = br_bcube_power(cube, cube->k - 1), used = 0;
    struct item *items = calloc((size_t)inventory->n_hosts * (cube->k + 1), sizeof *items);
    struct subnet *subnets = calloc((size_t)switches * cube->k, sizeof *subnets);
    if (!items || !subnets) {
        free(items);
        free(subnets);
        return br_error(ENOMEM, "no memory to check an inventory of %u hosts", inventory->n_hosts);
    }
    if (inventory->n_hosts != inventory->cabling.hosts)
        inventory_check_find(&check, 0,
                             "%u hosts are listed, the shape has %u: list the others, or write "
                             "shape: {n: %u, k: %u, hosts: "
                             "%u}",
                             inventory->n_hosts, inventory->cabling.hosts, cube->n, cube->k,
                             inventory->n_hosts);
    check_unique(&check, items);
    for (uint32_t host = 0; host < inventory->n_hosts; host++)
        if (!inventory->hosts[host].missing)
            check_host(&check, host);
    for (uint32_t i = 0; i < switches * cube->k; i++)
        used += inventory_check_check_switch(&check, i / switches, i % switches, &subnets[used]);
    check_overlaps(&check, subnets, used);
    check_named(&check);
    free(items);
    free(subnets);
    return check.count;
}

struct first {
    uint32_t line;
    char message[BR_ERROR_BYTES];
};

static void keep_first(void *user, uint32_t line, const char *text)
{
    struct first *first = user;
    if (first->message[0])
        return;
    first->line = line;
    snprintf(first->message, sizeof first->message, "%s", text);
}

int br_inventory_sound(const struct br_inventory *inventory)
{
    struct first first = {0, ""};
    char more[96] = "";
    int count = br_inventory_check(inventory, keep_first, &first);
    if (count <= 0)
        return count;
    if (count > 1)
        snprintf(more, sizeof more, " (and %d more: `braid bcube plan --check FILE` lists them)",
                 count - 1);
    return br_error(EINVAL, "%s:%u: %.300s%s", inventory->file, first.line ? first.line : 1,
                    first.message, more);
}
