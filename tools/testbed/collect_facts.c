/* SPDX-License-Identifier: BSD-3-Clause */
/* The agents' answers of facts and probes, into the survey. What does not look as it should is left
 * at its default. */
#include "tools/testbed/collect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/testbed/json.h"

#define FACTS_MS 15000
#define STEP_MS  10000

static void collect_facts_copy_text(char *out, size_t room, const cJSON *object, const char *name)
{
    snprintf(out, room, "%s", br_json_text(object, name, ""));
}

static bool collect_facts_read_mac(uint8_t mac[6], const char *text)
{
    unsigned m[6];
    if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5]) != 6)
        return false;
    for (int i = 0; i < 6; i++)
        mac[i] = (uint8_t)m[i];
    return true;
}

static void read_counters(const cJSON *object, uint64_t *out)
{
    const cJSON *counters = cJSON_GetObjectItemCaseSensitive(object, "counters");
    for (int c = 0; br_survey_counters[c]; c++)
        out[c] = (uint64_t)br_json_number(counters, br_survey_counters[c], 0);
}

static void read_addresses(struct br_nic *nic, const cJSON *list)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        uint32_t ip, bits;
        if (nic->n_addresses == BR_SURVEY_ADDRESSES || !cJSON_IsString(item) ||
            br_address_parse(item->valuestring, &ip, &bits))
            continue;
        nic->addresses[nic->n_addresses++] = (struct br_cidr){ip, bits > 32 ? 32 : (int)bits};
    }
}

static void collect_facts_read_nic(struct br_nic *nic, const cJSON *object)
{
    *nic = (struct br_nic){
        .up = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "up")),
        .carrier = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "carrier")),
        .mtu = (int)br_json_number(object, "mtu", -1),
        .numa = (int)br_json_number(object, "numa", -1),
        .speed = br_json_number(object, "speed", 0),
        .rp_filter = (int)br_json_number(object, "rp_filter", -1),
        .arp_ignore = (int)br_json_number(object, "arp_ignore", -1),
        .arp_announce = (int)br_json_number(object, "arp_announce", -1),
    };
    collect_facts_copy_text(nic->name, sizeof nic->name, object, "name");
    collect_facts_copy_text(nic->pci, sizeof nic->pci, object, "pci");
    collect_facts_copy_text(nic->driver, sizeof nic->driver, object, "driver");
    collect_facts_copy_text(nic->driver_version, sizeof nic->driver_version, object,
                            "driver_version");
    collect_facts_copy_text(nic->firmware, sizeof nic->firmware, object, "firmware");
    collect_facts_read_mac(nic->mac, br_json_text(object, "mac", ""));
    read_addresses(nic, cJSON_GetObjectItemCaseSensitive(object, "addresses"));
    read_counters(object, nic->before);
    read_counters(object, nic->after);
}

static void read_rdma(struct br_rdma *rdma, const cJSON *object)
{
    static const char *const qualities[] = {"pfc",    "trust", "ecn_np",
                                            "ecn_rp", "tos",   "traffic_class"};
    *rdma = (struct br_rdma){.port = (int)br_json_number(object, "port", 1),
                             .gid_index = (int)br_json_number(object, "gid_index", -1),
                             .mtu = (int)br_json_number(object, "mtu", 0)};
    collect_facts_copy_text(rdma->device, sizeof rdma->device, object, "device");
    collect_facts_copy_text(rdma->netdev, sizeof rdma->netdev, object, "netdev");
    collect_facts_copy_text(rdma->state, sizeof rdma->state, object, "state");
    collect_facts_copy_text(rdma->firmware, sizeof rdma->firmware, object, "firmware");
    collect_facts_copy_text(rdma->gid_type, sizeof rdma->gid_type, object, "gid_type");
    collect_facts_copy_text(rdma->what, sizeof rdma->what, object, "what");
    collect_facts_copy_text(rdma->remedy, sizeof rdma->remedy, object, "remedy");
    for (size_t i = 0; i < sizeof qualities / sizeof *qualities; i++) {
        size_t used = strlen(rdma->quality);
        const char *value = br_json_text(object, qualities[i], "");
        if (value[0])
            snprintf(rdma->quality + used, sizeof rdma->quality - used, "%s%s %.40s",
                     used ? ", " : "", qualities[i], value);
    }
}

static void read_facts(struct br_survey_host *host, const cJSON *answer)
{
    const cJSON *item;
    host->reached = true;
    host->root = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer, "root"));
    host->memlock = br_json_number(answer, "memlock", -1);
    host->hugepages = (int)br_json_number(answer, "hugepages", 0);
    collect_facts_copy_text(host->hostname, sizeof host->hostname, answer, "hostname");
    collect_facts_copy_text(host->kernel, sizeof host->kernel, answer, "kernel");
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(answer, "nics")) if (host->n_nics <
                                                                                   BR_SURVEY_NICS)
        collect_facts_read_nic(&host->nics[host->n_nics++], item);
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(answer, "rdma")) if (host->n_rdma <
                                                                                   BR_SURVEY_RDMA)
        read_rdma(&host->rdma[host->n_rdma++], item);
}

static int collect_facts_nic_by_name(const struct br_survey_host *host, const char *name)
{
    for (int i = 0; i < host->n_nics; i++)
        if (!strcmp(host->nics[i].name, name))
            return i;
    return -1;
}

static void read_after(struct br_survey_host *host, const cJSON *answer)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(answer, "nics"))
    {
        int i = collect_facts_nic_by_name(host, br_json_text(item, "name", ""));
        if (i >= 0)
            read_counters(item, host->nics[i].after);
    }
}

static cJSON *collect_facts_question(const char *verb)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "do", verb);
    return object;
}

/* Hosts whose agents are gone are not reached any more. */
static void mark_lost(struct br_collect *collect)
{
    for (int h = 0; h < collect->agents->count; h++) {
        const struct br_agents_host *one = &collect->agents->list[h];
        struct br_survey_host *host = &collect->survey->hosts[h];
        if (one->alive || host->absent)
            continue;
        host->reached = false;
        snprintf(host->message, sizeof host->message, "%s", one->message);
    }
}

void br_collect_facts(struct br_collect *collect, bool again)
{
    if (collect->progress)
        collect->progress(again ? "counters after the load" : "facts of all hosts");
    br_agents_ask_all(collect->agents, collect_facts_question("facts"), FACTS_MS);
    for (int h = 0; h < collect->agents->count; h++) {
        const struct br_agents_host *one = &collect->agents->list[h];
        struct br_survey_host *host = &collect->survey->hosts[h];
        if (one->answer && again)
            read_after(host, one->answer);
        else if (one->answer)
            read_facts(host, one->answer);
        else if (one->alive)
            snprintf(host->message, sizeof host->message, "%s", one->message);
    }
    mark_lost(collect);
    br_survey_match(collect->survey);
}

/* ---- probes ---------------------------------------------------------------------------------- */

static int read_seen_probes(struct br_collect *collect, uint32_t h, const cJSON *answer)
{
    struct br_survey *survey = collect->survey;
    const cJSON *item;
    int rc = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(answer, "seen"))
    {
        int64_t from = br_json_number(item, "host", -1);
        int on = collect_facts_nic_by_name(&survey->hosts[h], br_json_text(item, "on", ""));
        if (from < 0 || from >= survey->n_hosts || on < 0 || rc)
            continue;
        int nic = collect_facts_nic_by_name(&survey->hosts[from], br_json_text(item, "nic", ""));
        if (nic >= 0)
            rc = br_survey_add_sound(survey, (uint32_t)from * BR_SURVEY_NICS + (uint32_t)nic,
                                     h * BR_SURVEY_NICS + (uint32_t)on,
                                     (uint32_t)br_json_number(item, "count", 1));
    }
    return rc;
}

static void read_lldp(struct br_survey *survey, uint32_t h, const cJSON *answer)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(answer, "lldp"))
    {
        int on = collect_facts_nic_by_name(&survey->hosts[h], br_json_text(item, "on", ""));
        int port = on < 0 ? -1 : br_survey_port_of_node(survey, h * BR_SURVEY_NICS + (uint32_t)on);
        if (port >= 0)
            snprintf(survey->ports[port].lldp, sizeof survey->ports[port].lldp, "%.60s port %.60s",
                     br_json_text(item, "system", "a switch"), br_json_text(item, "port", "?"));
    }
}

static void read_speakers(struct br_collect *collect)
{
    for (int h = 0; h < collect->agents->count; h++) {
        const struct br_agents_host *one = &collect->agents->list[h];
        struct br_survey_host *host = &collect->survey->hosts[h];
        const cJSON *name;
        collect->survey->probed |= one->answer != NULL;
        if (host->reached && !one->answer)
            snprintf(host->message, sizeof host->message, "%s", one->message);
        cJSON_ArrayForEach(name, cJSON_GetObjectItemCaseSensitive(one->answer, "nics"))
        {
            int nic =
                cJSON_IsString(name) ? collect_facts_nic_by_name(host, name->valuestring) : -1;
            if (nic >= 0)
                host->nics[nic].speaks = true;
        }
    }
}

int br_collect_probes(struct br_collect *collect)
{
    struct timespec now, settle = {.tv_nsec = 60000000};
    cJSON **questions = calloc((size_t)collect->agents->count + 1, sizeof *questions);
    int rc = 0;
    if (!questions)
        return br_error(ENOMEM, "no memory for the probes");
    if (collect->progress)
        collect->progress("probes");
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t run = (int64_t)getpid() * 1000000000 + now.tv_sec % 1000 * 1000000 + now.tv_nsec / 1000;
    for (int h = 0; h < collect->agents->count; h++) {
        questions[h] = collect_facts_question("listen");
        cJSON_AddNumberToObject(questions[h], "run", (double)run);
        cJSON_AddNumberToObject(questions[h], "host", h);
    }
    br_agents_ask(collect->agents, questions, STEP_MS);
    free(questions);
    read_speakers(collect);
    cJSON *probes = collect_facts_question("send_probes");
    cJSON_AddNumberToObject(probes, "times", collect->full ? 20 : 6);
    cJSON_AddNumberToObject(probes, "gap_ms", 20);
    br_agents_ask_all(collect->agents, probes, STEP_MS);
    nanosleep(&settle, NULL);
    br_agents_ask_all(collect->agents, collect_facts_question("seen_probes"), STEP_MS);
    for (int h = 0; h < collect->agents->count && !rc; h++)
        rc = read_seen_probes(collect, (uint32_t)h, collect->agents->list[h].answer);
    mark_lost(collect);
    br_survey_match(collect->survey);
    return rc;
}

void br_collect_lldp(struct br_collect *collect, int wait_ms)
{
    struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000L};
    nanosleep(&wait, NULL);
    br_agents_ask_all(collect->agents, collect_facts_question("seen_probes"), STEP_MS);
    for (int h = 0; h < collect->agents->count; h++)
        if (collect->agents->list[h].answer)
            read_lldp(collect->survey, (uint32_t)h, collect->agents->list[h].answer);
    mark_lost(collect);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void ask_for(cJSON *list, const char *nic, uint32_t ip)
{
    char text[BR_ADDRESS_TEXT];
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "nic", nic);
    cJSON_AddStringToObject(object, "address", br_address_text(ip, 33, text));
    cJSON_AddItemToArray(list, object);
}

/* Its own address on each NIC, and of the next neighbour there the addresses of the other levels:
 * so each host is asked. */
static cJSON *arp_question(const struct br_survey *survey, uint32_t h)
{
    cJSON *object = collect_facts_question("arp");
    cJSON *list = cJSON_AddArrayToObject(object, "ask");
    for (uint32_t level = 0; level < survey->cube.k; level++) {
        uint32_t port = br_survey_port_of(survey, h, level);
        uint32_t next = (br_bcube_digit(&survey->cube, h, level) + 1) % survey->cube.n;
        uint32_t neighbour = br_bcube_with_digit(&survey->cube, h, level, next);
        const struct br_nic *nic = br_survey_nic(survey, port);
        if (!nic || !survey->ports[port].address.ip)
            continue;
        ask_for(list, nic->name, survey->ports[port].address.ip);
        for (uint32_t other = 0; other < survey->cube.k && neighbour < (uint32_t)survey->n_hosts;
             other++)
            if (other != level)
                ask_for(list, nic->name,
                        survey->ports[br_survey_port_of(survey, neighbour, other)].address.ip);
    }
    return object;
}

int br_collect_arp(struct br_collect *collect)
{
    struct br_survey *survey = collect->survey;
    cJSON **questions = calloc((size_t)collect->agents->count + 1, sizeof *questions);
    const cJSON *item;
    int rc = 0;
    if (!questions)
        return br_error(ENOMEM, "no memory for the questions of ARP");
    if (collect->progress)
        collect->progress("who answers for which address");
    for (int h = 0; h < collect->agents->count; h++)
        questions[h] = arp_question(survey, (uint32_t)h);
    br_agents_ask(collect->agents, questions, STEP_MS);
    free(questions);
    for (int h = 0; h < collect->agents->count; h++) {
        const cJSON *answer = collect->agents->list[h].answer;
        survey->arped |= cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer, "asked"));
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(answer, "answers"))
        {
            struct br_arp_answer said;
            uint32_t bits;
            int on = collect_facts_nic_by_name(&survey->hosts[h], br_json_text(item, "on", ""));
            said.on = (uint32_t)h * BR_SURVEY_NICS + (uint32_t)on;
            if (!rc && on >= 0 && collect_facts_read_mac(said.mac, br_json_text(item, "mac", "")) &&
                !br_address_parse(br_json_text(item, "address", ""), &said.ip, &bits))
                rc = br_survey_add_answer(survey, &said);
        }
    }
    mark_lost(collect);
    return rc;
}
