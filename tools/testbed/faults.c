/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/faults.h"

#include "base/error.h"
#include "base/file.h"
#include "tools/testbed/netlink.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME    "faults"
#define LINE_BYTES   128
#define WORDS_MAX    6
#define MILLION      1000000
#define DEFAULT_BITS 24
#define MTU_MIN      68 /* of IPv4 */
#define MTU_MAX      65535

/* Operands by letter: Host, Level, switch Index, any Switch, Bytes, Rate, Percent, Address, Mac,
 * Name. The first `keys` say where the fault is. */
static const struct kind {
    const char *name, *operands;
    int keys;
    const char *usage, *help;
} kinds[BR_FAULT_KINDS] = {
    [BR_FAULT_NIC] = {"nic", "HL", 2, "HOST LEVEL down|up", "its cable is out"},
    [BR_FAULT_SWITCH] = {"switch", "LI", 2, "LEVEL INDEX down|up", "it is without power"},
    [BR_FAULT_HOST] = {"host", "H", 1, "HOST down|up", "all its cables are out, mgmt0's too"},
    [BR_FAULT_LEVEL] = {"level", "L", 1, "LEVEL down|up", "all its switches are without power"},
    [BR_FAULT_MISSING] = {"missing", "HL", 2, "HOST LEVEL [clear]",
                          "the host does not have the NIC"},
    [BR_FAULT_OFF] = {"off", "HL", 2, "HOST LEVEL [clear]", "the NIC is set down"},
    [BR_FAULT_SWAP] = {"swap", "HLL", 3, "HOST LEVEL LEVEL [clear]",
                       "two NICs' cables are exchanged"},
    [BR_FAULT_MOVE] = {"move", "HLS", 2, "HOST LEVEL SWITCH|clear",
                       "the cable is on another switch"},
    [BR_FAULT_JOIN] = {"join", "SS", 2, "SWITCH SWITCH [clear]", "a cable connects two switches"},
    [BR_FAULT_MUTE] = {"mute", "LI", 2, "LEVEL INDEX [clear]",
                       "the switch has power and passes nothing"},
    [BR_FAULT_DEAF] = {"deaf", "HL", 2, "HOST LEVEL [clear]",
                       "nothing arrives, what it sends does"},
    [BR_FAULT_LOSS] = {"loss", "HLP", 2, "HOST LEVEL PERCENT|clear",
                       "its port loses so much, both ways"},
    [BR_FAULT_RATE] = {"rate", "HLR", 2, "HOST LEVEL RATE|clear", "of the link, both ways"},
    [BR_FAULT_MTU] = {"mtu", "HLB", 2, "HOST LEVEL BYTES|clear", "of the NIC"},
    [BR_FAULT_SWITCH_MTU] = {"switch-mtu", "HLB", 2, "HOST LEVEL BYTES|clear",
                             "of its port on the switch"},
    [BR_FAULT_ADDRESS] = {"address", "HLA", 2, "HOST LEVEL ADDRESS[/BITS]|none|clear",
                          "a wrong one"},
    [BR_FAULT_MAC] = {"mac", "HLM", 2, "HOST LEVEL MAC|clear", "another one"},
    [BR_FAULT_NAME] = {"name", "HLN", 2, "HOST LEVEL NAME|clear", "the NIC is called so"},
    [BR_FAULT_ARP] = {"arp", "H", 1, "HOST [clear]", "it answers ARP for any address on any NIC"},
    [BR_FAULT_RP_FILTER] = {"rp_filter", "H", 1, "HOST [clear]",
                            "strict: drops what it would answer elsewhere"},
};

static uint64_t switch_number(uint32_t level, uint32_t index)
{
    return (uint64_t)level << 32 | index;
}

/* ---- words ----------------------------------------------------------------------------------- */

static int faults_parse_number(const char *text, uint64_t min, uint64_t max, const char *what,
                               uint64_t *out)
{
    char *end = NULL;
    unsigned long long number = strtoull(text, &end, 10);

    if (!isdigit((unsigned char)*text) || *end || number < min || number > max)
        return br_error(EINVAL, "%s '%s': it must be a number from %" PRIu64 " to %" PRIu64, what,
                        text, min, max);
    *out = number;
    return 0;
}

static int parse_percent(const char *text, uint64_t *out)
{
    char *end = NULL;
    double percent = strtod(text, &end);

    if (*end == '%')
        end++;
    if (!isdigit((unsigned char)*text) || *end || !(percent > 0 && percent <= 100))
        return br_error(EINVAL, "'%s' is no percentage above 0, up to 100", text);
    *out = (uint64_t)(percent * MILLION / 100 + 0.5);
    return 0;
}

static int parse_address(const char *text, char out[BR_FAULT_TEXT])
{
    uint32_t address = 0, bits = 0;

    if (!strcmp(text, "none")) {
        snprintf(out, BR_FAULT_TEXT, "%s", text);
        return 0;
    }
    if (br_address_parse(text, &address, &bits) < 0)
        return br_error(EINVAL, "'%s' is no address such as 10.0.0.1 or 10.0.0.1/24, nor none",
                        text);
    br_address_text(address, bits > 32 ? DEFAULT_BITS : bits, out);
    return 0;
}

static int parse_mac(const char *text, char out[BR_FAULT_TEXT])
{
    unsigned m[6];
    int n = 0;

    if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5], &n) !=
            6 ||
        text[n] || m[0] & 1)
        return br_error(EINVAL, "'%s' is no MAC of a NIC such as 02:00:00:00:00:01", text);
    snprintf(out, BR_FAULT_TEXT, "%s", text);
    return 0;
}

static int parse_name(const char *text, char out[BR_FAULT_TEXT])
{
    if (!isalpha((unsigned char)*text) || strlen(text) >= BR_NIC_NAME ||
        text[strcspn(text, "/: \t\n")])
        return br_error(EINVAL, "'%s' is no name of a NIC: up to %d characters, a letter first",
                        text, BR_NIC_NAME - 1);
    snprintf(out, BR_FAULT_TEXT, "%s", text);
    return 0;
}

/* "2" is of the level; "s1-2", as plans and findings write it, of any. */
static int parse_switch(const struct br_testbed *testbed, const char *text, int64_t level,
                        uint64_t *out)
{
    uint32_t per_level = br_bcube_power(&testbed->cube, testbed->cube.k - 1);
    unsigned of = (unsigned)level, index = 0;
    int n = 0;

    if (*text == 's' && sscanf(text, "s%u-%u%n", &of, &index, &n) != 2)
        n = 0;
    if (*text != 's' && level >= 0 && sscanf(text, "%u%n", &index, &n) != 1)
        n = 0;
    if (!n || text[n] || of >= testbed->cube.k || index >= per_level)
        return br_error(EINVAL, "'%s' is no switch: write s0-0 to s%u-%u (level and index)%s", text,
                        testbed->cube.k - 1, per_level - 1,
                        level >= 0 ? ", or only the index" : "");
    if (!br_cabling_switch_used(&testbed->cabling, of, index))
        return br_error(EINVAL, "no host of this testbed is on switch '%s'", text);
    *out = switch_number(of, index);
    return 0;
}

static int parse_rate(const char *text, uint64_t *out)
{
    int rc = br_rate_parse(text, out);

    if (rc == 0 && (*out < BR_NET_RATE_MIN || *out > BR_NET_RATE_MAX))
        return br_error(EINVAL, "rate %s: it must be from 64kbit to 16gbit", text);
    return rc;
}

static int parse_operand(struct br_fault *fault, int i, const struct br_testbed *testbed,
                         const char *text)
{
    const struct br_bcube *cube = &testbed->cube;
    uint64_t *out = &fault->operand[i];
    uint32_t host = 0;
    int rc;

    switch (kinds[fault->kind].operands[i]) {
    case 'H':
        rc = br_testbed_parse_host(testbed, text, &host);
        *out = host;
        return rc;
    case 'L':
        return faults_parse_number(text, 0, cube->k - 1, "level", out);
    case 'I':
        rc = parse_switch(testbed, text, (int64_t)fault->operand[0], out);
        *out &= UINT32_MAX;
        return rc;
    case 'S':
        return parse_switch(testbed, text,
                            fault->kind == BR_FAULT_MOVE ? (int64_t)fault->operand[1] : -1, out);
    case 'B':
        return faults_parse_number(text, MTU_MIN, MTU_MAX, "MTU", out);
    case 'R':
        return parse_rate(text, out);
    case 'A':
        return parse_address(text, fault->text);
    case 'M':
        return parse_mac(text, fault->text);
    case 'N':
        return parse_name(text, fault->text);
    default:
        return parse_percent(text, out);
    }
}

static int find_kind(const char *name)
{
    for (int i = 0; i < BR_FAULT_KINDS; i++)
        if (!strcmp(kinds[i].name, name))
            return i;
    return br_error(EINVAL, "there is no fault '%s'; `braid bcube fault --help` lists them", name);
}

int br_fault_parse(struct br_fault *fault, bool *inject, const struct br_testbed *testbed, int argc,
                   char *const argv[])
{
    const char *last = argc ? argv[argc - 1] : "";
    bool clears = !strcmp(last, "up") || !strcmp(last, "clear"),
         says = clears || !strcmp(last, "down");
    int kind = argc ? find_kind(argv[0])
                    : br_error(EINVAL, "no fault was named; `braid bcube fault --help` lists them");
    int given = argc - 1 - says, rc = 0, expected;
    const struct kind *k;

    if (kind < 0)
        return kind;
    k = &kinds[kind];
    expected = clears ? k->keys : (int)strlen(k->operands);
    if (given != expected || (!says && kind <= BR_FAULT_LEVEL))
        return br_error(EINVAL, "write it as: fault %s %s", k->name, k->usage);
    *fault = (struct br_fault){.kind = (enum br_fault_kind)kind};
    for (int i = 0; i < given && rc == 0; i++)
        rc = parse_operand(fault, i, testbed, argv[1 + i]);
    if (rc == 0 && kind == BR_FAULT_SWAP && fault->operand[1] == fault->operand[2])
        rc = br_error(EINVAL, "swap takes two levels that differ");
    if (rc == 0 && kind == BR_FAULT_JOIN && fault->operand[0] == fault->operand[1])
        rc = br_error(EINVAL, "join takes two switches that differ");
    *inject = !clears;
    return rc;
}

void br_fault_print(const struct br_fault *fault, const struct br_testbed *testbed, FILE *out)
{
    const struct kind *k = &kinds[fault->kind];
    char text[BR_TESTBED_HOST];

    fputs(k->name, out);
    for (int i = 0; k->operands[i]; i++) {
        uint64_t operand = fault->operand[i];

        if (k->operands[i] == 'H')
            fprintf(out, " %s", br_testbed_host_name(testbed, (uint32_t)operand, text));
        else if (k->operands[i] == 'R')
            fprintf(out, " %s", br_rate_print(operand, text));
        else if (k->operands[i] == 'P')
            fprintf(out, " %.9g", (double)operand * 100 / MILLION);
        else if (k->operands[i] == 'S')
            fprintf(out, " %s",
                    br_cabling_switch_name((uint32_t)(operand >> 32), (uint32_t)operand, text));
        else if (strchr("AMN", k->operands[i]))
            fprintf(out, " %s", fault->text);
        else
            fprintf(out, " %" PRIu64, operand);
    }
    fputs(fault->kind <= BR_FAULT_LEVEL ? " down" : "", out);
}

void br_fault_help(FILE *out)
{
    for (int i = 0; i < BR_FAULT_KINDS; i++)
        fprintf(out, "  %-10s %-36s %s\n", kinds[i].name, kinds[i].usage, kinds[i].help);
}

/* ---- the list -------------------------------------------------------------------------------- */

static int faults_find(const struct br_faults *faults, const struct br_fault *fault)
{
    for (int i = 0; i < faults->count; i++)
        if (faults->fault[i].kind == fault->kind &&
            !memcmp(faults->fault[i].operand, fault->operand,
                    sizeof fault->operand[0] * (size_t)kinds[fault->kind].keys))
            return i;
    return -1;
}

int br_faults_inject(struct br_faults *faults, const struct br_fault *fault)
{
    int i = faults_find(faults, fault);

    if (i < 0 && faults->count == BR_FAULTS_MAX)
        return br_error(ENOSPC, "%d faults are injected already, which is the limit",
                        BR_FAULTS_MAX);
    faults->fault[i < 0 ? faults->count++ : i] = *fault;
    return 0;
}

int br_faults_clear(struct br_faults *faults, const struct br_fault *fault,
                    const struct br_testbed *testbed)
{
    int i = faults_find(faults, fault);

    if (i < 0)
        return br_error(
            ENOENT,
            "no fault of kind %s is injected there; `braid bcube fault list --name %s` lists them",
            kinds[fault->kind].name, testbed->name);
    faults->count--;
    memmove(&faults->fault[i], &faults->fault[i + 1],
            sizeof *faults->fault * (size_t)(faults->count - i));
    return 0;
}

/* ---- what the list makes of the network ------------------------------------------------------ */

/* The cable: where it ends. */
static void faults_plug(const struct br_fault *fault, const struct br_testbed *testbed,
                        uint32_t host, uint32_t level, struct br_nic_state *state)
{
    const uint64_t *on = fault->operand;

    if (fault->kind == BR_FAULT_MOVE && on[0] == host && on[1] == level) {
        state->level = (uint32_t)(on[2] >> 32);
        state->index = (uint32_t)on[2];
    }
    if (fault->kind == BR_FAULT_SWAP && on[0] == host && (on[1] == level || on[2] == level)) {
        state->level = (uint32_t)(on[1] == level ? on[2] : on[1]);
        state->index = br_bcube_switch(&testbed->cube, host, state->level);
    }
}

/* A switch without power takes the link from whoever is plugged into it. */
static void spoil_switch(const struct br_fault *fault, struct br_nic_state *state)
{
    const uint64_t *on = fault->operand;

    if (fault->kind == BR_FAULT_LEVEL && on[0] == state->level)
        state->up = false;
    if (on[0] != state->level || on[1] != state->index)
        return;
    if (fault->kind == BR_FAULT_SWITCH)
        state->up = false;
    if (fault->kind == BR_FAULT_MUTE)
        state->loss_in = state->loss_out = MILLION;
}

/* A fault of this NIC. */
static void spoil_nic(const struct br_fault *fault, struct br_nic_state *state)
{
    uint64_t value = fault->operand[2];

    switch (fault->kind) {
    case BR_FAULT_NIC:
        state->up = false;
        break;
    case BR_FAULT_MISSING:
        state->missing = true;
        break;
    case BR_FAULT_OFF:
        state->off = true;
        break;
    case BR_FAULT_DEAF:
        state->loss_out = MILLION;
        break;
    case BR_FAULT_LOSS:
        state->loss_in = state->loss_in > value ? state->loss_in : (uint32_t)value;
        state->loss_out = state->loss_out > value ? state->loss_out : (uint32_t)value;
        break;
    case BR_FAULT_RATE:
        state->rate = value;
        break;
    case BR_FAULT_MTU:
        state->mtu = (uint32_t)value;
        break;
    case BR_FAULT_SWITCH_MTU:
        state->port_mtu = (uint32_t)value;
        break;
    case BR_FAULT_ADDRESS:
        snprintf(state->address, sizeof state->address, "%s",
                 strcmp(fault->text, "none") ? fault->text : "");
        break;
    case BR_FAULT_MAC:
        snprintf(state->mac, sizeof state->mac, "%.17s", fault->text);
        break;
    case BR_FAULT_NAME:
        snprintf(state->name, sizeof state->name, "%.15s", fault->text);
        break;
    default:
        break;
    }
}

/* A cable between two switches makes one of them: here everybody moves to the first. */
static void faults_join(const struct br_fault *fault, struct br_nic_state *state)
{
    if (fault->kind != BR_FAULT_JOIN ||
        fault->operand[1] != switch_number(state->level, state->index))
        return;
    state->level = (uint32_t)(fault->operand[0] >> 32);
    state->index = (uint32_t)fault->operand[0];
}

void br_faults_nic(const struct br_faults *faults, const struct br_testbed *testbed, uint32_t host,
                   uint32_t level, struct br_nic_state *state)
{
    const struct br_fault *end = faults->fault + faults->count;

    *state = (struct br_nic_state){.up = true,
                                   .level = level,
                                   .index = br_bcube_switch(&testbed->cube, host, level),
                                   .mtu = testbed->mtu,
                                   .port_mtu = testbed->mtu,
                                   .rate = testbed->rate};
    br_testbed_address(testbed, host, level, state->address);
    br_testbed_mac(host, level, state->mac);
    br_testbed_nic(testbed, host, level, state->name);
    for (const struct br_fault *fault = faults->fault; fault < end; fault++)
        faults_plug(fault, testbed, host, level, state);
    for (const struct br_fault *fault = faults->fault; fault < end; fault++) {
        spoil_switch(fault, state);
        if (fault->kind == BR_FAULT_HOST && fault->operand[0] == host)
            state->up = false;
        if (strncmp(kinds[fault->kind].operands, "HL", 2) == 0 && fault->operand[0] == host &&
            fault->operand[1] == level)
            spoil_nic(fault, state);
    }
    for (const struct br_fault *fault = faults->fault; fault < end; fault++)
        faults_join(fault, state);
}

void br_faults_host(const struct br_faults *faults, uint32_t host, struct br_host_state *state)
{
    *state = (struct br_host_state){.management = true, .arp = true, .rp_filter = true};
    for (int i = 0; i < faults->count; i++) {
        enum br_fault_kind kind = faults->fault[i].kind;

        if (faults->fault[i].operand[0] != host)
            continue; /* of another host, or of none, and those have other kinds */
        state->management = state->management && kind != BR_FAULT_HOST;
        state->arp = state->arp && kind != BR_FAULT_ARP;
        state->rp_filter = state->rp_filter && kind != BR_FAULT_RP_FILTER;
    }
}

/* ---- the file: one fault a line, in the words of the command line ---------------------------- */

static int load_line(struct br_faults *faults, const struct br_testbed *testbed, char *line)
{
    char *text[WORDS_MAX], *rest = line;
    struct br_fault fault = {0};
    int n = 0, rc;
    bool inject = false;

    while (n < WORDS_MAX && (text[n] = strtok_r(rest, " \n", &rest)))
        n++;
    rc = br_fault_parse(&fault, &inject, testbed, n, text);
    return rc < 0 ? rc : br_faults_inject(faults, &fault);
}

int br_faults_load(struct br_faults *faults, const struct br_testbed *testbed)
{
    char path[BR_TESTBED_FOLDER + 32], line[LINE_BYTES];
    FILE *file = fopen(br_testbed_path(testbed, FILE_NAME, path), "re");
    int rc = 0;

    faults->count = 0;
    if (!file)
        return errno == ENOENT ? 0 : br_error(errno, "cannot read %s: %s", path, strerror(errno));
    while (rc == 0 && fgets(line, sizeof line, file))
        rc = load_line(faults, testbed, line);
    fclose(file);
    return rc < 0 ? br_error_prefix(rc, "%s is damaged: ", path) : 0;
}

int br_faults_save(const struct br_faults *faults, const struct br_testbed *testbed)
{
    char path[BR_TESTBED_FOLDER + 32];
    struct br_file file;
    int rc = br_file_open(&file, NULL, br_testbed_path(testbed, FILE_NAME, path), false);

    if (rc)
        return rc;
    for (int i = 0; i < faults->count; i++) {
        br_fault_print(&faults->fault[i], testbed, file.stream);
        fputc('\n', file.stream);
    }
    return br_file_close(&file, NULL, 0);
}
