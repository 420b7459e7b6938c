/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/inventory.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/text.h"

/* Does a word read back as itself, in YAML 1.1 and 1.2, also between braces? */
static bool is_plain(const char *word)
{
    static const char *const others[] = {"y",   "n",    "yes",   "no",  "on",
                                         "off", "true", "false", "null"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcasecmp(word, others[i]))
            return false;
    if (!isalpha((unsigned char)word[0]))
        return false;
    for (const char *at = word; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("-_./@", *at))
            return false;
    return true;
}

/* Words have no letter that a quoted one would have to escape. */
static void write_word(const char *word, FILE *out)
{
    if (is_plain(word)) {
        fputs(word, out);
        return;
    }
    fprintf(out, "\"%s\"", word);
}

static void write_nic(const struct br_inventory *inventory, const struct br_inventory_nic *nic,
                      FILE *out)
{
    static const uint8_t nobody[6];
    char text[BR_RATE_TEXT], address[BR_ADDRESS_TEXT];
    if (!nic->name[0]) {
        fputs("      - ~\n", out);
        return;
    }
    fputs("      - {name: ", out);
    write_word(nic->name, out);
    fprintf(out, ", address: %s", br_address_text(nic->address, nic->bits, address));
    if (memcmp(nic->mac, nobody, sizeof nobody) != 0)
        fprintf(out, ", mac: \"%02x:%02x:%02x:%02x:%02x:%02x\"", nic->mac[0], nic->mac[1],
                nic->mac[2], nic->mac[3], nic->mac[4], nic->mac[5]);
    if (nic->rate != inventory->rate)
        fprintf(out, ", rate: %s", br_rate_print(nic->rate, text));
    if (nic->pci[0])
        fprintf(out, ", pci: \"%s\"", nic->pci);
    if (nic->numa >= 0)
        fprintf(out, ", numa: %d", nic->numa);
    if (nic->gid_index >= 0)
        fprintf(out, ", gid_index: %d", nic->gid_index);
    fputs("}\n", out);
}

static void write_host(const struct br_inventory *inventory, uint32_t number, FILE *out)
{
    const struct br_inventory_host *host = &inventory->hosts[number];
    char text[BR_BCUBE_TEXT], address[BR_ADDRESS_TEXT];
    fputs("  - name: ", out);
    write_word(host->name, out);
    fprintf(out, " # host %u %s\n    reach: ", number,
            br_bcube_text(&inventory->cabling.cube, number, text));
    write_word(host->access, out);
    fprintf(out, "\n    management: %s\n", br_address_text(host->management, 33, address));
    if (host->missing)
        fputs("    missing: true\n", out);
    fputs("    nics:\n", out);
    for (uint32_t level = 0; level < inventory->cabling.cube.k; level++)
        write_nic(inventory, &host->nics[level], out);
}

static void inventory_write_write_switch(const struct br_inventory_switch *entry, FILE *out)
{
    fprintf(out, "  - {level: %u, index: %u", entry->level, entry->index);
    if (entry->name[0]) {
        fputs(", name: ", out);
        write_word(entry->name, out);
    }
    for (uint32_t i = 0; i < entry->n_ports; i++) {
        fputs(i ? ", " : ", ports: [", out);
        write_word(entry->ports[i], out);
    }
    fputs(entry->n_ports ? "]}\n" : "}\n", out);
}

int br_inventory_write(const struct br_inventory *inventory, FILE *out)
{
    static const char *const kinds[] = {"ssh", "emulation", "here"};
    const struct br_cabling *cabling = &inventory->cabling;
    char text[BR_ADDRESS_TEXT + BR_RATE_TEXT];
    fprintf(out, "shape: {n: %u, k: %u", cabling->cube.n, cabling->cube.k);
    if (cabling->hosts != cabling->cube.hosts)
        fprintf(out, ", hosts: %u", cabling->hosts);
    fprintf(out, "}\nnetwork: %s\n",
            br_address_text(cabling->network, cabling->network_bits, text));
    fprintf(out, "reach: %s # how the tools get to a host: ssh, emulation or here\n",
            kinds[inventory->access]);
    if (inventory->rate)
        fprintf(out, "rate: %s # of each NIC\n", br_rate_print(inventory->rate, text));
    fprintf(
        out,
        "mtu: %u\nhosts: # in the order of their numbers; the NICs in the order of their levels\n",
        inventory->mtu);
    for (uint32_t i = 0; i < inventory->n_hosts; i++)
        write_host(inventory, i, out);
    if (inventory->n_switches)
        fputs("switches: # names of real ones; ports in the order of the hosts' digits\n", out);
    for (uint32_t i = 0; i < inventory->n_switches; i++)
        inventory_write_write_switch(&inventory->switches[i], out);
    if (fflush(out) || ferror(out))
        return br_error(EIO, "cannot write the inventory: %s", strerror(errno));
    return 0;
}
