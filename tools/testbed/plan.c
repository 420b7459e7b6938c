/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * braid bcube plan: what to buy, where to plug it in, and the files for that. Everything is written
 * from an inventory: the default one of a shape, or a file; so a file that was edited gives new
 * lists, drawings and configurations.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "protocol/bootstrap/inventory.h"
#include "tools/common/options.h"
#include "tools/testbed/bcube.h"
#include "tools/testbed/draw.h"
#include "tools/testbed/plan_text.h"
#include "tools/testbed/switch_config.h"
#include "tools/common/output.h"

struct request {
    struct br_arguments arguments;
    int64_t hosts, mtu;
    const char *check, *inventory, *inventory_out, *svg, *checklist, *switch_config, *prefix, *rate,
        *nics;
    bool force, no_list;
};

static const char usage[] =
    "braid bcube plan N K [option...] | plan --inventory FILE [option...] | plan --check FILE";

static int testbed_plan_parse(struct request *r, int argc, char **argv)
{
    const struct br_option options[] = {
        {"hosts", 0, BR_OPTION_NUMBER, &r->hosts, 1, BR_BCUBE_HOSTS_MAX,
         "M a partial cube: only hosts 0 to M-1"},
        {"prefix", 0, BR_OPTION_TEXT, &r->prefix, 0, 0,
         "NETWORK for all addresses (default: " BR_CABLING_NETWORK ")"},
        {"nics", 0, BR_OPTION_TEXT, &r->nics, 0, 0,
         "NAMES of the NICs of a host by level: eth2,eth3 (default: eth0,eth1,..)"},
        {"rate", 0, BR_OPTION_TEXT, &r->rate, 0, 0, "RATE of each NIC, for the inventory: 40gbit"},
        {"mtu", 0, BR_OPTION_NUMBER, &r->mtu, 576, 65535, "BYTES (default: 1500)"},
        {"inventory-out", 0, BR_OPTION_TEXT, &r->inventory_out, 0, 0,
         "FILE to write the inventory to"},
        {"force", 0, BR_OPTION_FLAG, &r->force, 0, 0, "--inventory-out may replace a file"},
        {"svg", 0, BR_OPTION_TEXT, &r->svg, 0, 0, "FILE to draw the cube to"},
        {"checklist", 0, BR_OPTION_TEXT, &r->checklist, 0, 0,
         "FILE for a list to tick off, a line a cable"},
        {"switch-config", 0, BR_OPTION_TEXT, &r->switch_config, 0, 0,
         "KIND cisco, sonic or linux: print switch configurations"},
        {"no-list", 0, BR_OPTION_FLAG, &r->no_list, 0, 0, "without the cabling list"},
        {"inventory", 0, BR_OPTION_TEXT, &r->inventory, 0, 0, "FILE to plan from, instead of N K"},
        {"check", 0, BR_OPTION_TEXT, &r->check, 0, 0,
         "FILE an inventory: only report what contradicts itself in it"},
        {0},
    };
    return br_arguments_parse(&r->arguments, options, usage, argc, argv);
}

/* ---- the inventory to plan from -------------------------------------------------------------- */

/* NIC names by level from "a,b,c" to all hosts. */
static int name_nics(struct br_inventory *inventory, const char *names)
{
    uint32_t k = inventory->cabling.cube.k, level = 0;
    const char *at = names;
    for (; level < k && *at; level++) {
        size_t length = strcspn(at, ",");
        if (!length || length >= BR_NIC_NAME)
            return br_error(EINVAL, "--nics %.64s: a name has from 1 to %d letters", names,
                            BR_NIC_NAME - 1);
        for (uint32_t host = 0; host < inventory->n_hosts; host++)
            snprintf(inventory->hosts[host].nics[level].name, BR_NIC_NAME, "%.*s", (int)length, at);
        at += length;
        at += *at == ',' && level + 1 < k;
    }
    if (level != k || *at)
        return br_error(EINVAL,
                        "--nics %.64s: give %u names, one for each level, with commas between them",
                        names, k);
    return 0;
}

static int from_shape(const struct request *r, struct br_inventory *inventory)
{
    struct br_cabling cabling;
    struct br_bcube cube;
    char text[64];
    if (r->arguments.count != 2 || r->arguments.command)
        return br_error(EINVAL,
                        "which shape? `braid bcube plan 3 2` is BCube(3,2): 9 hosts of 2 NICs");
    snprintf(text, sizeof text, "%s,%s", r->arguments.operands[0], r->arguments.operands[1]);
    int rc = br_bcube_parse(&cube, text);
    if (!rc)
        rc = br_cabling_init(&cabling, &cube, r->hosts, r->prefix);
    if (!rc)
        rc = br_inventory_default(inventory, &cabling);
    if (rc)
        return rc;
    inventory->mtu = (uint32_t)r->mtu;
    if (r->rate)
        rc = br_rate_parse(r->rate, &inventory->rate);
    for (size_t i = 0; i < (size_t)inventory->n_hosts * cube.k; i++)
        inventory->all_nics[i].rate = inventory->rate;
    if (!rc && r->nics)
        rc = name_nics(inventory, r->nics);
    return rc;
}

/* Options that say what stands in the file already, or that do not go with each other. */
static int check_request(const struct request *r)
{
    const char *file = r->check ? "--check" : "--inventory";
    if (!r->check && !r->inventory)
        return 0;
    if (r->check && r->inventory)
        return br_error(EINVAL, "--check reads the file itself: leave --inventory out");
    if (r->arguments.count || r->hosts || r->prefix || r->rate || r->nics ||
        r->mtu != BR_INVENTORY_MTU)
        return br_error(EINVAL,
                        "%s: shape, hosts, addresses, NICs, rate and MTU are set in the file; "
                        "change them there",
                        file);
    if (r->check && (r->inventory_out || r->svg || r->checklist || r->switch_config))
        return br_error(
            EINVAL, "--check only looks: use --inventory FILE to write lists and drawings of it");
    return 0;
}

struct report {
    FILE *out;
    const char *file;
};

static void print_contradiction(void *user, uint32_t line, const char *text)
{
    const struct report *report = user;
    if (line)
        fprintf(report->out, "%s:%u: %s\n", report->file, line, text);
    else
        fprintf(report->out, "%s: %s\n", report->file, text);
}

static int testbed_plan_check_file(const char *file)
{
    struct report report = {stdout, file};
    struct br_inventory inventory;
    int count = br_inventory_load(&inventory, file);
    if (!count) {
        const struct br_bcube cube = inventory.cabling.cube;
        count = br_inventory_check(&inventory, print_contradiction, &report);
        if (!count)
            printf("%s: BCube(%u,%u) of %u hosts, nothing contradicts itself\n", file, cube.n,
                   cube.k, inventory.n_hosts);
        else if (count > 0)
            printf("%s: %d %s\n", file, count, count == 1 ? "contradiction" : "contradictions");
        br_inventory_destroy(&inventory);
    }
    if (count < 0)
        fprintf(stderr, "braid bcube plan: %s\n", br_error_message());
    return count != 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void testbed_plan_paint_host(void *user, uint32_t host, struct br_paint *paint)
{
    const struct br_inventory *inventory = user;
    const struct br_inventory_host *at = &inventory->hosts[host];
    char text[BR_BCUBE_TEXT], address[BR_ADDRESS_TEXT], name[BR_HOST_NAME], port[BR_HOST_NAME];
    size_t room = sizeof paint->tooltip;
    snprintf(paint->label, sizeof paint->label, "%s", at->name);
    paint->dashed = at->missing;
    size_t used = (size_t)snprintf(paint->tooltip, room, "%s, host %u %s%s", at->name, host,
                                   br_bcube_text(&inventory->cabling.cube, host, text),
                                   at->missing ? ", missing" : "");
    for (uint32_t level = 0; level < inventory->cabling.cube.k && used < room; level++) {
        uint32_t index = br_bcube_switch(&inventory->cabling.cube, host, level);
        if (br_plan_has_cable(inventory, host, level))
            used += (size_t)snprintf(
                paint->tooltip + used, room - used, "\n%s %s to %s port %s", at->nics[level].name,
                br_address_text(at->nics[level].address, at->nics[level].bits, address),
                br_inventory_switch_name(inventory, level, index, name),
                br_inventory_port_name(inventory, level, index,
                                       br_bcube_port(&inventory->cabling.cube, host, level), port));
    }
}

static void testbed_plan_paint_cable(void *user, uint32_t host, uint32_t level,
                                     struct br_paint *paint)
{
    const struct br_inventory *inventory = user;
    uint32_t index = br_bcube_switch(&inventory->cabling.cube, host, level);
    char name[BR_HOST_NAME], port[BR_HOST_NAME], address[BR_ADDRESS_TEXT];
    const struct br_inventory_nic *nic = &inventory->hosts[host].nics[level];
    br_inventory_switch_name(inventory, level, index, name);
    br_inventory_port_name(inventory, level, index,
                           br_bcube_port(&inventory->cabling.cube, host, level), port);
    if (br_plan_has_cable(inventory, host, level)) {
        snprintf(paint->tooltip, sizeof paint->tooltip, "%s %s, %s\nlevel %u, switch %s, port %s",
                 inventory->hosts[host].name, nic->name,
                 br_address_text(nic->address, nic->bits, address), level, name, port);
        return;
    }
    snprintf(paint->tooltip, sizeof paint->tooltip, "%s has no NIC for level %u",
             inventory->hosts[host].name, level);
    snprintf(paint->colour, sizeof paint->colour, "#aaaaaa");
    paint->dashed = true;
}

static void testbed_plan_paint_switch(void *user, uint32_t level, uint32_t index,
                                      struct br_paint *paint)
{
    const struct br_inventory *inventory = user;
    char subnet[BR_ADDRESS_TEXT];
    br_inventory_switch_name(inventory, level, index, paint->label);
    snprintf(paint->tooltip, sizeof paint->tooltip, "switch %s: level %u, index %u\n%s",
             paint->label, level, index, br_plan_subnet(inventory, level, index, subnet));
}

static int testbed_plan_write_svg(const struct br_inventory *inventory, FILE *out)
{
    char sums[128], text[BR_BCUBE_LEVELS_MAX][40];
    struct br_draw_key keys[BR_BCUBE_LEVELS_MAX];
    struct br_drawing drawing = {
        .cabling = inventory->cabling,
        .subtitle = br_plan_sums(inventory, sums, sizeof sums),
        .keys = keys,
        .n_keys = (int)inventory->cabling.cube.k,
        .host = testbed_plan_paint_host,
        .cable = testbed_plan_paint_cable,
        .switch_ = testbed_plan_paint_switch,
        .user = (void *)(uintptr_t)inventory,
    };
    for (uint32_t level = 0; level < inventory->cabling.cube.k; level++) {
        snprintf(text[level], sizeof text[level], "level %u  %s", level,
                 inventory->hosts[0].nics[level].name);
        keys[level] = (struct br_draw_key){br_draw_level_colour(level), text[level]};
    }
    drawing.cabling.hosts = inventory->n_hosts;
    return br_draw(&drawing, out);
}

static int write_checklist(const struct br_inventory *inventory, FILE *out)
{
    br_plan_checklist(inventory, out);
    return 0;
}

static int testbed_plan_write_file(const struct br_inventory *inventory, const char *file,
                                   bool replace,
                                   int (*write)(const struct br_inventory *inventory, FILE *out))
{
    int rc;
    FILE *out = br_output_open(file, replace, &rc);
    if (!out)
        return rc;
    rc = br_output_close(out, file, write(inventory, out));
    if (!rc && out != stdout)
        fprintf(stderr, "braid bcube plan: wrote %s\n", file);
    return rc;
}

static int testbed_plan_write_all(const struct request *r, const struct br_inventory *inventory,
                                  enum br_switch_kind kind)
{
    int rc = 0;
    if (!r->no_list)
        br_plan_list(inventory, stdout);
    if (r->switch_config) {
        if (!r->no_list)
            putchar('\n');
        rc = br_switch_config(inventory, kind, stdout);
    }
    if (!rc && (fflush(stdout) || ferror(stdout)))
        rc = br_error(EIO, "cannot write the plan: %s", strerror(errno));
    if (!rc && r->inventory_out)
        rc = testbed_plan_write_file(inventory, r->inventory_out, r->force, br_inventory_write);
    if (!rc && r->svg)
        rc = testbed_plan_write_file(inventory, r->svg, true, testbed_plan_write_svg);
    if (!rc && r->checklist)
        rc = testbed_plan_write_file(inventory, r->checklist, true, write_checklist);
    return rc;
}

static int testbed_plan_complain(int code)
{
    fprintf(stderr, "braid bcube plan: %s\n", br_error_message());
    return code;
}

/* Contradictions to stderr: nothing is planned from them. */
static int refuse_contradictions(const struct br_inventory *inventory)
{
    struct report report = {stderr, inventory->file};
    int count = br_inventory_check(inventory, print_contradiction, &report);
    return count > 0
               ? br_error(EINVAL, "%s contradicts itself; no plan is made of it", inventory->file)
               : count;
}

int br_bcube_plan(int argc, char **argv)
{
    struct request r = {.mtu = BR_INVENTORY_MTU};
    struct br_inventory inventory = {.file = NULL};
    enum br_switch_kind kind = BR_SWITCH_LINUX;
    int rc = testbed_plan_parse(&r, argc, argv);
    if (rc > 0)
        return 0;
    if (!rc)
        rc = check_request(&r);
    if (!rc && r.switch_config)
        rc = br_switch_kind_parse(r.switch_config, &kind);
    if (rc)
        return testbed_plan_complain(2);
    if (r.check)
        return testbed_plan_check_file(r.check);
    if (!r.inventory && (rc = from_shape(&r, &inventory)) != 0) {
        br_inventory_destroy(&inventory);
        return testbed_plan_complain(2);
    }
    if (r.inventory)
        rc = br_inventory_load(&inventory, r.inventory);
    if (!rc)
        rc = refuse_contradictions(&inventory);
    if (!rc)
        rc = testbed_plan_write_all(&r, &inventory, kind);
    br_inventory_destroy(&inventory);
    return rc ? testbed_plan_complain(1) : 0;
}
