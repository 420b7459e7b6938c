/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * YAML to inventory.
 *
 * 1. libyaml loads the whole document as an array of nodes; we walk down from the root as the
 *    format says, at most four levels deep. So aliases that point upwards cannot hurt; what is
 *    nested too deep is refused before: at every token libyaml's scanner looks at all brackets that
 *    are open, which takes 15 s for 100,000 of them.
 * 2. A mapping is read in one go into an array of its values, in the order of a list of known keys.
 *    Unknown and repeated keys are errors there and nowhere else.
 * 3. An empty value (`mac:`, `mac: ~`) is the same as no value.
 */
#include "protocol/bootstrap/inventory.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/error.h"
#include "base/text.h"

#define KEYS_MAX  8
#define DEPTH_MAX 32 /* levels of lists within lists */

struct reader {
    yaml_document_t document;
    struct br_inventory *inventory;
    const char *file;
};

static uint32_t inventory_read_line_of(const yaml_node_t *node)
{
    return (uint32_t)node->start_mark.line + 1;
}

/* wrong(): sets the error message and is -EINVAL. */
#define wrong(...) (report_wrong(__VA_ARGS__), -EINVAL)

__attribute__((format(printf, 3, 4))) static void
report_wrong(const struct reader *reader, const yaml_node_t *node, const char *format, ...)
{
    char text[BR_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    br_error(EINVAL, "%s:%u: %s", reader->file, inventory_read_line_of(node), text);
}

/* Every number in a document has its node. */
static const yaml_node_t *node_at(struct reader *reader, yaml_node_item_t number)
{
    static const yaml_node_t none = {.type = YAML_NO_NODE};
    const yaml_node_t *node = yaml_document_get_node(&reader->document, number);
    return node ? node : &none;
}

static bool inventory_read_is_empty(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    const char *text = (const char *)node->data.scalar.value;
    return !text[0] || !strcmp(text, "~") || !strcmp(text, "null");
}

/* The text of a scalar; NULL with a message when it is none, or has a zero in it. */
static const char *inventory_read_scalar(const struct reader *reader, const yaml_node_t *node,
                                         const char *what)
{
    const char *text = (const char *)node->data.scalar.value;
    if (node->type == YAML_SCALAR_NODE && strlen(text) == node->data.scalar.length)
        return text;
    report_wrong(reader, node, "%s must be one value, such as %s: ...", what, what);
    return NULL;
}

/* values[i] = the node of keys[i], NULL when it is not there or empty. */
static int read_mapping(struct reader *reader, const yaml_node_t *node, const char *what,
                        const char *const keys[], const yaml_node_t *values[])
{
    char known[256];
    size_t used = 0;
    uint32_t seen = 0;

    for (int i = 0; keys[i] && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", keys[i]);
    memset(values, 0, KEYS_MAX * sizeof *values);
    if (node->type != YAML_MAPPING_NODE)
        return wrong(reader, node, "%s must have keys: %s", what, known);
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = node_at(reader, pair->key);
        const yaml_node_t *value = node_at(reader, pair->value);
        const char *name = inventory_read_scalar(reader, key, "a key");
        int i = 0;
        if (!name)
            return -EINVAL;
        while (keys[i] && strcmp(keys[i], name) != 0)
            i++;
        if (!keys[i])
            return wrong(reader, key, "%s has no key '%.40s'; known are %s", what, name, known);
        if (seen & 1u << i)
            return wrong(reader, key, "'%s' stands twice in %s; take one away", name, what);
        seen |= 1u << i;
        values[i] = inventory_read_is_empty(value) ? NULL : value;
    }
    return 0;
}

static int inventory_read_number(struct reader *reader, const yaml_node_t *node, const char *what,
                                 int64_t min, int64_t max, int64_t *out)
{
    const char *text = inventory_read_scalar(reader, node, what);
    char *end;
    if (!text)
        return -EINVAL;
    errno = 0;
    int64_t number = strtoll(text, &end, 10);
    if (errno || end == text || *end || number < min || number > max)
        return wrong(reader, node, "%s: '%.40s' is no whole number from %" PRId64 " to %" PRId64,
                     what, text, min, max);
    *out = number;
    return 0;
}

/* A word that means nothing else to a shell, to ssh or to a switch: it ends up in commands that
 * people copy. */
static int read_word(struct reader *reader, const yaml_node_t *node, const char *what, char *out,
                     size_t bytes)
{
    const char *text = inventory_read_scalar(reader, node, what);
    if (!text)
        return -EINVAL;
    if (!text[0] || strlen(text) >= bytes)
        return wrong(reader, node, "%s: '%.40s' must have from 1 to %zu letters", what, text,
                     bytes - 1);
    if (text[0] == '-')
        return wrong(reader, node, "%s: '%.40s' must not begin with '-'", what, text);
    for (const char *at = text; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("-_.:/@+%", *at))
            return wrong(reader, node, "%s: '%.40s' may have letters, digits and -_.:/@+%% only",
                         what, text);
    memset(out, 0, bytes);
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

static int read_rate(struct reader *reader, const yaml_node_t *node, uint64_t *rate)
{
    const char *text = inventory_read_scalar(reader, node, "rate");
    if (!text)
        return -EINVAL;
    return br_rate_parse(text, rate)
               ? wrong(reader, node, "rate: '%.40s' is no rate: write it as 500mbit or 40gbit",
                       text)
               : 0;
}

static int inventory_read_mac(struct reader *reader, const yaml_node_t *node, uint8_t mac[6])
{
    const char *text = inventory_read_scalar(reader, node, "mac");
    unsigned int b[6];
    int used = 0;
    if (!text)
        return -EINVAL;
    if (strlen(text) != 17 || strspn(text, "0123456789abcdefABCDEF:") != 17 ||
        sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5],
               &used) != 6 ||
        used != 17)
        return wrong(reader, node, "mac: '%.40s' is no MAC address: write it as 02:00:00:00:00:01",
                     text);
    for (int i = 0; i < 6; i++)
        mac[i] = (uint8_t)b[i];
    return 0;
}

static int inventory_read_pci(struct reader *reader, const yaml_node_t *node, char pci[16])
{
    const char *text = inventory_read_scalar(reader, node, "pci");
    unsigned int domain, bus, device, function;
    int used = 0;
    if (!text)
        return -EINVAL;
    if (strspn(text, "0123456789abcdefABCDEF:.") != strlen(text) || strlen(text) != 12 ||
        sscanf(text, "%4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &used) != 4 ||
        used != 12)
        return wrong(reader, node,
                     "pci: '%.40s' is no PCI address: write it as lspci -D does, 0000:3b:00.0",
                     text);
    memcpy(pci, text, 13);
    return 0;
}

static int inventory_read_nic(struct reader *reader, const yaml_node_t *node,
                              struct br_inventory_nic *nic)
{
    enum { NAME, ADDRESS, MAC, RATE, PCI, NUMA, GID_INDEX };
    static const char *const keys[] = {"name", "address", "mac",       "rate",
                                       "pci",  "numa",    "gid_index", NULL};
    const yaml_node_t *values[KEYS_MAX];
    int64_t numa = -1, gid_index = -1;
    int rc = read_mapping(reader, node, "a NIC", keys, values);
    nic->line = inventory_read_line_of(node);
    if (!rc && values[NAME])
        rc = read_word(reader, values[NAME], "name of a NIC", nic->name, sizeof nic->name);
    if (!rc && values[ADDRESS]) {
        const char *text = inventory_read_scalar(reader, values[ADDRESS], "address");
        if (!text)
            return -EINVAL;
        if (br_address_parse(text, &nic->address, &nic->bits) || nic->bits > 30 || nic->bits < 1)
            return wrong(
                reader, values[ADDRESS],
                "address: '%.40s' is no address with a prefix length: write it as 10.0.0.1/24",
                text);
    }
    if (!rc && values[MAC])
        rc = inventory_read_mac(reader, values[MAC], nic->mac);
    if (!rc && values[RATE])
        rc = read_rate(reader, values[RATE], &nic->rate);
    if (!rc && values[PCI])
        rc = inventory_read_pci(reader, values[PCI], nic->pci);
    if (!rc && values[NUMA])
        rc = inventory_read_number(reader, values[NUMA], "numa", -1, 1023, &numa);
    if (!rc && values[GID_INDEX])
        rc = inventory_read_number(reader, values[GID_INDEX], "gid_index", 0, 255, &gid_index);
    nic->numa = (int)numa;
    nic->gid_index = (int)gid_index;
    return rc;
}

/* The children of a sequence of at most max; -EINVAL with a message. */
static int read_sequence(struct reader *reader, const yaml_node_t *node, const char *what,
                         uint32_t max, const yaml_node_item_t **items)
{
    if (node->type != YAML_SEQUENCE_NODE)
        return wrong(reader, node, "%s must be a list: a line with '- ' for each", what);
    int64_t count = node->data.sequence.items.top - node->data.sequence.items.start;
    *items = node->data.sequence.items.start;
    if (count > max)
        return wrong(reader, node_at(reader, (*items)[max]),
                     "%s: %" PRId64 " are listed, BCube(%u,%u) has at most %u", what, count,
                     reader->inventory->cabling.cube.n, reader->inventory->cabling.cube.k, max);
    return (int)count;
}

static int read_nics(struct reader *reader, const yaml_node_t *node, struct br_inventory_host *host)
{
    uint32_t k = reader->inventory->cabling.cube.k;
    const yaml_node_item_t *items;
    int rc = 0, count = read_sequence(reader, node, "nics", k, &items);
    if (count < 0)
        return count;
    for (uint32_t level = 0; level < k && !rc; level++) {
        const yaml_node_t *item = (int)level < count ? node_at(reader, items[level]) : NULL;
        if (item && !inventory_read_is_empty(item))
            rc = inventory_read_nic(reader, item, &host->nics[level]);
        else
            host->nics[level] = (struct br_inventory_nic){
                .numa = -1, .gid_index = -1, .line = item ? inventory_read_line_of(item) : 0};
    }
    return rc;
}

static int read_host(struct reader *reader, const yaml_node_t *node, struct br_inventory_host *host)
{
    enum { NAME, REACH, MANAGEMENT, NICS, MISSING };
    static const char *const keys[] = {"name", "reach", "management", "nics", "missing", NULL};
    const yaml_node_t *values[KEYS_MAX];
    uint32_t bits;
    int rc = read_mapping(reader, node, "a host", keys, values);
    host->line = inventory_read_line_of(node);
    if (!rc && values[NAME]) {
        rc = read_word(reader, values[NAME], "name of a host", host->name, sizeof host->name);
        memcpy(host->access, host->name, sizeof host->name);
    }
    if (!rc && values[REACH])
        rc = read_word(reader, values[REACH], "reach", host->access, sizeof host->access);
    if (!rc && values[MANAGEMENT]) {
        const char *text = inventory_read_scalar(reader, values[MANAGEMENT], "management");
        if (!text)
            return -EINVAL;
        if (br_address_parse(text, &host->management, &bits) || bits <= 32)
            return wrong(reader, values[MANAGEMENT],
                         "management: '%.40s' is no address: write it as 10.255.0.1", text);
    }
    if (!rc && values[MISSING]) {
        const char *text = inventory_read_scalar(reader, values[MISSING], "missing");
        if (!text || (strcmp(text, "true") != 0 && strcmp(text, "false") != 0))
            return wrong(reader, values[MISSING], "missing: write true or false");
        host->missing = !strcmp(text, "true");
    }
    if (!rc && values[NICS])
        rc = read_nics(reader, values[NICS], host);
    return rc;
}

static int read_hosts(struct reader *reader, const yaml_node_t *node)
{
    struct br_inventory *inventory = reader->inventory;
    const yaml_node_item_t *items = NULL;
    int count = node ? read_sequence(reader, node, "hosts", inventory->cabling.cube.hosts, &items)
                     : (int)inventory->cabling.hosts;
    if (count < 0)
        return count;
    if (!count)
        return wrong(reader, node,
                     "hosts: the list is empty; leave the key out for hosts with default names and "
                     "addresses");
    int rc = br_inventory_fill(inventory, (uint32_t)count);
    for (int i = 0; i < count && items && !rc; i++) {
        const yaml_node_t *item = node_at(reader, items[i]);
        if (!inventory_read_is_empty(item))
            rc = read_host(reader, item, &inventory->hosts[i]);
    }
    return rc;
}

static int inventory_read_ports(struct reader *reader, const yaml_node_t *node,
                                struct br_inventory_switch *entry)
{
    const yaml_node_item_t *items;
    int rc = 0,
        count = read_sequence(reader, node, "ports", reader->inventory->cabling.cube.n, &items);
    if (count <= 0)
        return count;
    entry->ports = calloc((size_t)count, sizeof *entry->ports);
    if (!entry->ports)
        return br_error(ENOMEM, "no memory for the ports of a switch");
    entry->n_ports = (uint32_t)count;
    for (int i = 0; i < count && !rc; i++)
        rc = read_word(reader, node_at(reader, items[i]), "a port", entry->ports[i],
                       sizeof entry->ports[i]);
    return rc;
}

static int read_switch(struct reader *reader, const yaml_node_t *node,
                       struct br_inventory_switch *entry)
{
    enum { LEVEL, INDEX, NAME, PORTS };
    static const char *const keys[] = {"level", "index", "name", "ports", NULL};
    const struct br_bcube *cube = &reader->inventory->cabling.cube;
    const yaml_node_t *values[KEYS_MAX];
    int64_t level = 0, index = 0;
    int rc = read_mapping(reader, node, "a switch", keys, values);
    entry->line = inventory_read_line_of(node);
    if (!rc && (!values[LEVEL] || !values[INDEX]))
        rc = wrong(reader, node,
                   "a switch needs level and index: write {level: 0, index: 0, name: ...}");
    if (!rc)
        rc = inventory_read_number(reader, values[LEVEL], "level", 0, cube->k - 1, &level);
    if (!rc)
        rc = inventory_read_number(reader, values[INDEX], "index", 0,
                                   br_bcube_power(cube, cube->k - 1) - 1, &index);
    if (!rc && values[NAME])
        rc = read_word(reader, values[NAME], "name of a switch", entry->name, sizeof entry->name);
    if (!rc && values[PORTS])
        rc = inventory_read_ports(reader, values[PORTS], entry);
    entry->level = (uint32_t)level;
    entry->index = (uint32_t)index;
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct br_inventory_switch *x = a, *y = b;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

static int read_switches(struct reader *reader, const yaml_node_t *node)
{
    struct br_inventory *inventory = reader->inventory;
    const struct br_bcube *cube = &inventory->cabling.cube;
    const yaml_node_item_t *items;
    int rc = 0, count = read_sequence(reader, node, "switches",
                                      cube->k * br_bcube_power(cube, cube->k - 1), &items);
    if (count <= 0)
        return count;
    inventory->switches = calloc((size_t)count, sizeof *inventory->switches);
    if (!inventory->switches)
        return br_error(ENOMEM, "no memory for %d switches", count);
    inventory->n_switches = (uint32_t)count;
    for (int i = 0; i < count && !rc; i++)
        rc = read_switch(reader, node_at(reader, items[i]), &inventory->switches[i]);
    qsort(inventory->switches, (size_t)count, sizeof *inventory->switches, by_place);
    return rc;
}

static int read_shape(struct reader *reader, const yaml_node_t *shape, const yaml_node_t *network)
{
    enum { N, K, HOSTS };
    static const char *const keys[] = {"n", "k", "hosts", NULL};
    const yaml_node_t *values[KEYS_MAX];
    struct br_bcube cube;
    int64_t n, k, hosts = 0;
    const char *text = network ? inventory_read_scalar(reader, network, "network") : NULL;
    int rc = network && !text ? -EINVAL : read_mapping(reader, shape, "shape", keys, values);
    if (rc)
        return rc;
    if (!values[N] || !values[K])
        return wrong(reader, shape, "the shape needs n and k: write shape: {n: 3, k: 2}");
    rc = inventory_read_number(reader, values[N], "n", 2, BR_BCUBE_HOSTS_MAX, &n);
    if (!rc)
        rc = inventory_read_number(reader, values[K], "k", 1, BR_BCUBE_LEVELS_MAX, &k);
    if (!rc && values[HOSTS])
        rc = inventory_read_number(reader, values[HOSTS], "hosts", 1, BR_BCUBE_HOSTS_MAX, &hosts);
    if (rc)
        return rc;
    rc = br_bcube_init(&cube, n, k);
    if (!rc)
        rc = br_cabling_init(&reader->inventory->cabling, &cube, hosts, text);
    return br_error_prefix(rc, "%s:%u: ", reader->file,
                           inventory_read_line_of(network && rc ? network : shape));
}

static int read_access(struct reader *reader, const yaml_node_t *node)
{
    static const char *const kinds[] = {"ssh", "emulation", "here"};
    const char *text = inventory_read_scalar(reader, node, "reach");
    for (int i = 0; text && i < 3; i++) {
        if (!strcmp(text, kinds[i])) {
            reader->inventory->access = (enum br_inventory_access)i;
            return 0;
        }
    }
    return text ? wrong(reader, node, "reach: '%.40s' is unknown: write ssh, emulation or here",
                        text)
                : -EINVAL;
}

static int read_root(struct reader *reader, const yaml_node_t *root)
{
    enum { SHAPE, NETWORK, REACH, RATE, MTU, HOSTS, SWITCHES };
    static const char *const keys[] = {"shape", "network", "reach",    "rate",
                                       "mtu",   "hosts",   "switches", NULL};
    const yaml_node_t *values[KEYS_MAX];
    int64_t mtu = BR_INVENTORY_MTU;
    int rc = read_mapping(reader, root, "an inventory", keys, values);
    if (!rc && !values[SHAPE])
        rc = wrong(reader, root, "the shape is missing: write shape: {n: 3, k: 2}");
    if (!rc)
        rc = read_shape(reader, values[SHAPE], values[NETWORK]);
    if (!rc && values[REACH])
        rc = read_access(reader, values[REACH]);
    if (!rc && values[RATE])
        rc = read_rate(reader, values[RATE], &reader->inventory->rate);
    if (!rc && values[MTU])
        rc = inventory_read_number(reader, values[MTU], "mtu", 576, 65535, &mtu);
    reader->inventory->mtu = (uint32_t)mtu;
    if (!rc)
        rc = read_hosts(reader, values[HOSTS]);
    if (!rc && values[SWITCHES])
        rc = read_switches(reader, values[SWITCHES]);
    return rc;
}

static int no_yaml(const yaml_parser_t *parser, const char *file)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return br_error(ENOMEM, "no memory to read %s", file);
    return br_error(EINVAL, "%s:%zu: this is no YAML: %s%s%s", file, parser->problem_mark.line + 1,
                    parser->problem ? parser->problem : "unreadable", parser->context ? " " : "",
                    parser->context ? parser->context : "");
}

static int inventory_read_load(struct reader *reader, yaml_parser_t *parser)
{
    yaml_document_t rest;
    if (!yaml_parser_load(parser, &reader->document))
        return no_yaml(parser, reader->file);
    const yaml_node_t *root = yaml_document_get_root_node(&reader->document);
    int rc =
        root ? read_root(reader, root)
             : br_error(EINVAL, "%s:1: the inventory is empty: write at least shape: {n: 3, k: 2}",
                        reader->file);
    if (!rc && !yaml_parser_load(parser, &rest)) {
        rc = no_yaml(parser, reader->file);
    } else if (!rc) {
        root = yaml_document_get_root_node(&rest);
        if (root)
            rc = wrong(reader, root, "an inventory is one YAML document: take the '---' away");
        yaml_document_delete(&rest);
    }
    yaml_document_delete(&reader->document);
    return rc;
}

/* Scans the tokens. Returns 0, also for what is no YAML at all: the loader has a message for that.
 */
static int inventory_check_depth(const char *text, size_t bytes, const char *file)
{
    yaml_parser_t parser;
    yaml_token_t token;
    int rc = 0, depth = 0;
    bool end = false;

    if (!yaml_parser_initialize(&parser))
        return br_error(ENOMEM, "no memory to read %s", file);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    while (!end && !rc && yaml_parser_scan(&parser, &token)) {
        switch (token.type) {
        case YAML_FLOW_SEQUENCE_START_TOKEN:
        case YAML_FLOW_MAPPING_START_TOKEN:
        case YAML_BLOCK_SEQUENCE_START_TOKEN:
        case YAML_BLOCK_MAPPING_START_TOKEN:
            depth++;
            break;
        case YAML_FLOW_SEQUENCE_END_TOKEN:
        case YAML_FLOW_MAPPING_END_TOKEN:
        case YAML_BLOCK_END_TOKEN:
            depth--;
            break;
        default:
            end = token.type == YAML_STREAM_END_TOKEN;
        }
        if (depth > DEPTH_MAX)
            rc = br_error(EINVAL,
                          "%s:%zu: lists within lists, more than %d deep: this is no inventory",
                          file, token.start_mark.line + 1, DEPTH_MAX);
        yaml_token_delete(&token);
    }
    yaml_parser_delete(&parser);
    return rc;
}

int br_inventory_parse(struct br_inventory *inventory, const char *text, size_t bytes,
                       const char *file)
{
    struct reader reader = {.inventory = inventory, .file = file};
    yaml_parser_t parser;
    *inventory = (struct br_inventory){.file = NULL};
    if (bytes > BR_INVENTORY_BYTES)
        return br_error(E2BIG, "%s has more than the %u bytes that an inventory may have", file,
                        BR_INVENTORY_BYTES);
    int rc = inventory_check_depth(text, bytes, file);
    if (rc)
        return rc;
    inventory->file = strdup(file);
    if (!inventory->file || !yaml_parser_initialize(&parser)) {
        br_inventory_destroy(inventory);
        return br_error(ENOMEM, "no memory to read %s", file);
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    rc = inventory_read_load(&reader, &parser);
    yaml_parser_delete(&parser);
    if (rc)
        br_inventory_destroy(inventory);
    return rc;
}
