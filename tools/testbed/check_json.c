/* SPDX-License-Identifier: BSD-3-Clause */
/* The result of a check as JSON: findings first, then what was measured. */
#include "tools/testbed/check_report.h"

#include <string.h>

#include <cjson/cJSON.h>

#include "tools/common/output.h"

static void add_finding(cJSON *array, const struct br_survey *survey,
                        const struct br_finding *finding)
{
    char text[160];
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "code", finding->code);
    cJSON_AddStringToObject(object, "severity", br_severity_name(finding->severity));
    cJSON_AddStringToObject(object, "title", finding->title);
    cJSON *evidence = cJSON_AddArrayToObject(object, "evidence");
    for (int e = 0; e < finding->n_evidence; e++)
        cJSON_AddItemToArray(evidence, cJSON_CreateString(finding->evidence[e]));
    cJSON_AddStringToObject(object, "remedy", finding->remedy);
    cJSON_AddNumberToObject(object, "consequences", finding->consequences);
    cJSON *places = cJSON_AddArrayToObject(object, "places");
    for (int p = 0; p < finding->n_locations; p++) {
        const struct br_location *place = &finding->locations[p];
        cJSON *item = cJSON_CreateObject();
        if (place->kind == BR_LOCATION_HOST) {
            cJSON_AddStringToObject(item, "host", survey->hosts[place->number].name);
        } else if (place->kind == BR_LOCATION_SWITCH) {
            cJSON_AddStringToObject(item, "switch", survey->switches[place->number]);
        } else {
            uint32_t port = place->kind == BR_LOCATION_PORT ? place->number
                                                            : place->number / (survey->cube.n - 1);
            cJSON_AddStringToObject(item, place->kind == BR_LOCATION_PORT ? "nic" : "from",
                                    br_survey_nic_text(survey, port, text));
            if (place->kind == BR_LOCATION_LINK)
                cJSON_AddStringToObject(
                    item, "to",
                    br_survey_nic_text(survey, br_survey_link_end(survey, place->number), text));
        }
        cJSON_AddItemToArray(places, item);
    }
    cJSON_AddItemToArray(array, object);
}

static void check_json_add_nic(cJSON *array, const struct br_survey *survey, uint32_t port)
{
    const struct br_nic *nic = br_survey_nic(survey, port);
    char text[BR_ADDRESS_TEXT];
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "plan", survey->ports[port].nic);
    cJSON_AddNumberToObject(object, "level", br_survey_level_of(survey, port));
    cJSON_AddStringToObject(object, "switch", survey->switches[br_survey_switch_of(survey, port)]);
    cJSON_AddStringToObject(object, "switch_port", survey->ports[port].label);
    cJSON_AddBoolToObject(object, "found", nic != NULL);
    if (nic) {
        cJSON_AddStringToObject(object, "name", nic->name);
        cJSON_AddBoolToObject(object, "up", nic->up);
        cJSON_AddBoolToObject(object, "carrier", nic->carrier);
        cJSON_AddNumberToObject(object, "mtu", nic->mtu);
        cJSON_AddNumberToObject(object, "speed_mbit", (double)nic->speed);
        cJSON_AddStringToObject(object, "pci", nic->pci);
        cJSON_AddNumberToObject(object, "numa", nic->numa);
        cJSON_AddStringToObject(object, "driver", nic->driver);
        cJSON_AddStringToObject(object, "firmware", nic->firmware);
        cJSON *addresses = cJSON_AddArrayToObject(object, "addresses");
        for (int a = 0; a < nic->n_addresses; a++)
            cJSON_AddItemToArray(
                addresses, cJSON_CreateString(br_address_text(
                               nic->addresses[a].ip, (uint32_t)nic->addresses[a].prefix, text)));
    }
    if (survey->ports[port].lldp[0])
        cJSON_AddStringToObject(object, "lldp", survey->ports[port].lldp);
    cJSON_AddItemToArray(array, object);
}

static void add_rdma(cJSON *array, const struct br_rdma *rdma)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "device", rdma->device);
    cJSON_AddNumberToObject(object, "port", rdma->port);
    cJSON_AddStringToObject(object, "netdev", rdma->netdev);
    cJSON_AddStringToObject(object, "state", rdma->state);
    cJSON_AddStringToObject(object, "firmware", rdma->firmware);
    cJSON_AddNumberToObject(object, "gid_index", rdma->gid_index);
    cJSON_AddStringToObject(object, "gid_type", rdma->gid_type);
    cJSON_AddNumberToObject(object, "mtu", rdma->mtu);
    cJSON_AddStringToObject(object, "quality", rdma->quality);
    cJSON_AddStringToObject(object, "why_not", rdma->what);
    cJSON_AddItemToArray(array, object);
}

static void add_host(cJSON *array, const struct br_survey *survey, uint32_t h)
{
    const struct br_survey_host *host = &survey->hosts[h];
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", host->name);
    cJSON_AddBoolToObject(object, "reached", host->reached);
    if (host->message[0])
        cJSON_AddStringToObject(object, "words", host->message);
    cJSON_AddStringToObject(object, "kernel", host->kernel);
    cJSON_AddNumberToObject(object, "memlock", (double)host->memlock);
    cJSON_AddNumberToObject(object, "hugepages", host->hugepages);
    cJSON *nics = cJSON_AddArrayToObject(object, "nics");
    for (uint32_t level = 0; level < survey->cube.k; level++)
        check_json_add_nic(nics, survey, br_survey_port_of(survey, h, level));
    cJSON *rdma = cJSON_AddArrayToObject(object, "rdma");
    for (int i = 0; i < host->n_rdma; i++)
        add_rdma(rdma, &host->rdma[i]);
    cJSON_AddItemToArray(array, object);
}

static void add_link(cJSON *array, const struct br_survey *survey, uint32_t l,
                     const struct br_spread spreads[3])
{
    static const char *const names[] = {"alone", "together", "latency"};
    const struct br_survey_link *link = &survey->links[l];
    uint32_t from = l / (survey->cube.n - 1);
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "from", survey->hosts[br_survey_host_of(survey, from)].name);
    cJSON_AddStringToObject(
        object, "to", survey->hosts[br_survey_host_of(survey, br_survey_link_end(survey, l))].name);
    cJSON_AddNumberToObject(object, "level", br_survey_level_of(survey, from));
    cJSON_AddNumberToObject(object, "echoes_sent", link->sent);
    cJSON_AddNumberToObject(object, "echoes_got", link->got);
    cJSON_AddNumberToObject(object, "path_mtu", link->path_mtu);
    cJSON_AddNumberToObject(object, "latency_min_us", link->min_us);
    cJSON_AddNumberToObject(object, "latency_median_us", link->median_us);
    cJSON_AddNumberToObject(object, "mbit_alone", link->alone / 1e6);
    cJSON_AddNumberToObject(object, "mbit_together", link->together / 1e6);
    cJSON *outlier = cJSON_AddArrayToObject(object, "outlier");
    for (enum br_link_value v = BR_LINK_ALONE; v <= BR_LINK_LATENCY; v++)
        if (br_link_outlier(&spreads[v], link, v))
            cJSON_AddItemToArray(outlier, cJSON_CreateString(names[v]));
    cJSON_AddItemToArray(array, object);
}

static void add_links(cJSON *root, const struct br_survey *survey)
{
    cJSON *links = cJSON_AddArrayToObject(root, "links");
    for (uint32_t level = 0; level < survey->cube.k; level++) {
        struct br_spread spreads[3];
        for (enum br_link_value v = BR_LINK_ALONE; v <= BR_LINK_LATENCY; v++)
            spreads[v] = br_link_spread(survey, level, v);
        for (uint32_t l = 0; l < br_survey_links(survey); l++)
            if (br_survey_level_of(survey, l / (survey->cube.n - 1)) == level &&
                br_survey_link_is(survey, l))
                add_link(links, survey, l, spreads);
    }
}

int br_check_json(const struct br_check_report *report, FILE *out)
{
    const struct br_survey *survey = report->survey;
    cJSON *root = cJSON_CreateObject(), *shape = cJSON_AddObjectToObject(root, "shape");
    cJSON_AddNumberToObject(shape, "n", survey->cube.n);
    cJSON_AddNumberToObject(shape, "k", survey->cube.k);
    cJSON_AddStringToObject(root, "testbed", report->title);
    cJSON_AddBoolToObject(root, "healthy", br_check_unhealthy(report) == 0);
    cJSON_AddNumberToObject(root, "seconds", report->seconds);
    cJSON *findings = cJSON_AddArrayToObject(root, "findings");
    for (int i = 0; i < report->findings->count; i++)
        add_finding(findings, survey, &report->findings->list[i]);
    cJSON *hosts = cJSON_AddArrayToObject(root, "hosts");
    for (uint32_t h = 0; h < (uint32_t)survey->n_hosts; h++)
        add_host(hosts, survey, h);
    add_links(root, survey);
    int rc = br_output_json(out, root);
    cJSON_Delete(root);
    return rc;
}
