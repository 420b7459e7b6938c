/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/survey.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

const char *const br_survey_counters[BR_SURVEY_COUNTERS + 1] = {
    "rx_errors",        "tx_errors",         "rx_crc_errors", "rx_frame_errors", "rx_fifo_errors",
    "rx_missed_errors", "tx_carrier_errors", "collisions",    "rdma_errors",
};

int br_survey_init(struct br_survey *survey, const struct br_bcube *cube, int hosts)
{
    uint32_t ports = (uint32_t)hosts * cube->k,
             switches = cube->k * br_bcube_power(cube, cube->k - 1);
    *survey = (struct br_survey){.cube = *cube, .mtu = 1500, .n_hosts = hosts};
    survey->hosts = calloc((size_t)hosts, sizeof *survey->hosts);
    survey->ports = calloc(ports, sizeof *survey->ports);
    survey->links = calloc((size_t)ports * (cube->n - 1), sizeof *survey->links);
    survey->switches = calloc(switches, sizeof *survey->switches);
    if (!survey->hosts || !survey->ports || !survey->links || !survey->switches) {
        br_survey_destroy(survey);
        return br_error(ENOMEM, "no memory for the survey of %d hosts", hosts);
    }
    for (int h = 0; h < hosts; h++)
        snprintf(survey->hosts[h].name, sizeof survey->hosts[h].name, "h%02d", h);
    for (uint32_t p = 0; p < ports; p++) {
        snprintf(survey->ports[p].nic, sizeof survey->ports[p].nic, "eth%u", p % cube->k);
        snprintf(survey->ports[p].label, sizeof survey->ports[p].label, "%u",
                 br_bcube_port(cube, p / cube->k, p % cube->k));
        survey->ports[p].numa = survey->ports[p].found = -1;
    }
    for (uint32_t s = 0; s < switches; s++) {
        uint32_t a_level = switches / cube->k;
        snprintf(survey->switches[s], sizeof survey->switches[s], "s%u-%u", s / a_level,
                 s % a_level);
    }
    return 0;
}

void br_survey_destroy(struct br_survey *survey)
{
    free(survey->hosts);
    free(survey->ports);
    free(survey->links);
    free(survey->switches);
    free(survey->sounds);
    free(survey->answers);
    *survey = (struct br_survey){0};
}

/* Room for one more in an array that doubles. */
static int testbed_survey_grow(void **array, int count, int *room, size_t size)
{
    if (count < *room)
        return 0;
    int more = *room ? 2 * *room : 64;
    void *moved = reallocarray(*array, (size_t)more, size);
    if (!moved)
        return br_error(ENOMEM, "no memory for the probes that the hosts received");
    *array = moved;
    *room = more;
    return 0;
}

int br_survey_add_sound(struct br_survey *survey, uint32_t from, uint32_t to, uint32_t count)
{
    void *array = survey->sounds;
    int rc =
        testbed_survey_grow(&array, survey->n_sounds, &survey->max_sounds, sizeof *survey->sounds);
    survey->sounds = array;
    if (!rc)
        survey->sounds[survey->n_sounds++] = (struct br_sound){from, to, count};
    return rc;
}

int br_survey_add_answer(struct br_survey *survey, const struct br_arp_answer *answer)
{
    void *array = survey->answers;
    int rc = testbed_survey_grow(&array, survey->n_answers, &survey->max_answers,
                                 sizeof *survey->answers);
    survey->answers = array;
    if (!rc)
        survey->answers[survey->n_answers++] = *answer;
    return rc;
}

/* ---- which interface a port is --------------------------------------------------------------- */

static int testbed_survey_nic_by_name(const struct br_survey_host *host, const char *name)
{
    for (int i = 0; i < host->n_nics; i++)
        if (!strcmp(host->nics[i].name, name))
            return i;
    return -1;
}

static bool testbed_survey_has_address(const struct br_nic *nic, uint32_t ip)
{
    for (int i = 0; i < nic->n_addresses; i++)
        if (nic->addresses[i].ip == ip)
            return true;
    return false;
}

/* Does the interface hear a NIC that belongs on the port's switch? */
static bool sees_switch(const struct br_survey *survey, uint32_t node, uint32_t port)
{
    for (int i = 0; i < survey->n_sounds; i++) {
        if (survey->sounds[i].to != node)
            continue;
        int from = br_survey_port_of_node(survey, survey->sounds[i].from);
        if (from >= 0 &&
            br_survey_switch_of(survey, (uint32_t)from) == br_survey_switch_of(survey, port))
            return true;
    }
    return false;
}

static void match_renamed(struct br_survey *survey, uint32_t port)
{
    struct br_survey_port *plan = &survey->ports[port];
    uint32_t h = br_survey_host_of(survey, port);
    const struct br_survey_host *host = &survey->hosts[h];
    for (int how = 0; how < 3 && plan->found < 0; how++) {
        for (int i = 0; i < host->n_nics && plan->found < 0; i++) {
            uint32_t node = h * BR_SURVEY_NICS + (uint32_t)i;
            const struct br_nic *nic = &host->nics[i];
            if (br_survey_port_of_node(survey, node) >= 0)
                continue;
            if ((how == 0 && plan->has_mac && !memcmp(nic->mac, plan->mac, 6)) ||
                (how == 1 && plan->address.ip &&
                 testbed_survey_has_address(nic, plan->address.ip)) ||
                (how == 2 && sees_switch(survey, node, port)))
                plan->found = i;
        }
    }
}

void br_survey_match(struct br_survey *survey)
{
    uint32_t ports = br_survey_ports(survey);
    for (uint32_t p = 0; p < ports; p++)
        survey->ports[p].found = testbed_survey_nic_by_name(
            &survey->hosts[br_survey_host_of(survey, p)], survey->ports[p].nic);
    for (uint32_t p = 0; p < ports; p++)
        if (survey->ports[p].found < 0)
            match_renamed(survey, p);
}

/* ---- numbers --------------------------------------------------------------------------------- */

uint32_t br_survey_ports(const struct br_survey *survey)
{
    return (uint32_t)survey->n_hosts * survey->cube.k;
}

uint32_t br_survey_links(const struct br_survey *survey)
{
    return br_survey_ports(survey) * (survey->cube.n - 1);
}

uint32_t br_survey_port_of(const struct br_survey *survey, uint32_t host, uint32_t level)
{
    return host * survey->cube.k + level;
}

uint32_t br_survey_host_of(const struct br_survey *survey, uint32_t port)
{
    return port / survey->cube.k;
}

uint32_t br_survey_level_of(const struct br_survey *survey, uint32_t port)
{
    return port % survey->cube.k;
}

uint32_t br_survey_switch_of(const struct br_survey *survey, uint32_t port)
{
    const struct br_bcube *cube = &survey->cube;
    uint32_t level = br_survey_level_of(survey, port);
    return level * br_bcube_power(cube, cube->k - 1) +
           br_bcube_switch(cube, br_survey_host_of(survey, port), level);
}

int br_survey_port_of_node(const struct br_survey *survey, uint32_t node)
{
    uint32_t host = node / BR_SURVEY_NICS;
    for (uint32_t level = 0; level < survey->cube.k; level++) {
        uint32_t port = br_survey_port_of(survey, host, level);
        if (survey->ports[port].found == (int)(node % BR_SURVEY_NICS))
            return (int)port;
    }
    return -1;
}

const struct br_nic *br_survey_nic(const struct br_survey *survey, uint32_t port)
{
    int found = survey->ports[port].found;
    return found < 0 ? NULL : &survey->hosts[br_survey_host_of(survey, port)].nics[found];
}

bool br_survey_alive(const struct br_survey *survey, uint32_t port)
{
    const struct br_nic *nic = br_survey_nic(survey, port);
    return nic && nic->up && nic->carrier;
}

uint32_t br_survey_link_end(const struct br_survey *survey, uint32_t link)
{
    uint32_t port = link / (survey->cube.n - 1), i = link % (survey->cube.n - 1);
    uint32_t level = br_survey_level_of(survey, port);
    uint32_t host = br_bcube_neighbour(&survey->cube, br_survey_host_of(survey, port), level, i);
    return br_survey_port_of(survey, host, level);
}

bool br_survey_link_is(const struct br_survey *survey, uint32_t link)
{
    uint32_t from = link / (survey->cube.n - 1), to = br_survey_link_end(survey, link);
    return to < br_survey_ports(survey) && !survey->ports[from].absent && !survey->ports[to].absent;
}

/* ---- words ----------------------------------------------------------------------------------- */

char *br_survey_nic_text(const struct br_survey *survey, uint32_t port, char out[160])
{
    const struct br_nic *nic = br_survey_nic(survey, port);
    snprintf(out, 160, "%s of %s", nic ? nic->name : survey->ports[port].nic,
             survey->hosts[br_survey_host_of(survey, port)].name);
    return out;
}

char *br_survey_switch_text(const struct br_survey *survey, uint32_t port, char out[160])
{
    snprintf(out, 160, "port %s of switch %s", survey->ports[port].label,
             survey->switches[br_survey_switch_of(survey, port)]);
    return out;
}

char *br_survey_command(const struct br_survey *survey, uint32_t host, char out[384],
                        const char *format, ...)
{
    va_list args;
    int used =
        snprintf(out, 384, "%s%s", survey->hosts[host].run, survey->hosts[host].run[0] ? " " : "");
    va_start(args, format);
    vsnprintf(out + used, 384 - (size_t)used, format, args);
    va_end(args);
    return out;
}
