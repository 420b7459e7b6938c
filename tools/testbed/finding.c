/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *br_severity_name(enum br_severity severity)
{
    static const char *const names[] = {"note", "warning", "error"};
    return names[severity];
}

struct br_finding *br_finding_add(struct br_findings *findings, const char *code,
                                  enum br_severity severity, const char *format, ...)
{
    static struct br_finding dropped;
    struct br_finding *finding = &dropped;
    va_list args;
    if (findings->count == findings->capacity) {
        int room = findings->capacity ? 2 * findings->capacity : 16;
        struct br_finding *moved = reallocarray(findings->list, (size_t)room, sizeof *moved);
        if (moved) {
            findings->list = moved;
            findings->capacity = room;
        }
    }
    if (findings->count < findings->capacity)
        finding = &findings->list[findings->count++];
    else
        findings->no_memory = true;
    *finding = (struct br_finding){.code = code, .severity = severity};
    va_start(args, format);
    vsnprintf(finding->title, sizeof finding->title, format, args);
    va_end(args);
    return finding;
}

void br_finding_evidence(struct br_finding *finding, const char *format, ...)
{
    va_list args;
    if (finding->n_evidence == BR_FINDING_EVIDENCE)
        return;
    va_start(args, format);
    vsnprintf(finding->evidence[finding->n_evidence++], sizeof finding->evidence[0], format, args);
    va_end(args);
}

void br_finding_remedy(struct br_finding *finding, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(finding->remedy, sizeof finding->remedy, format, args);
    va_end(args);
}

void br_finding_location(struct br_finding *finding, enum br_location_kind kind, uint32_t number)
{
    if (finding->n_locations < BR_FINDING_LOCATIONS)
        finding->locations[finding->n_locations++] = (struct br_location){kind, number};
}

int br_findings_at(const struct br_findings *findings, enum br_location_kind kind, uint32_t number)
{
    int worst = -1;
    for (int i = 0; i < findings->count; i++) {
        const struct br_finding *finding = &findings->list[i];
        for (int p = 0; p < finding->n_locations; p++)
            if (finding->locations[p].kind == kind && finding->locations[p].number == number &&
                (int)finding->severity > worst)
                worst = (int)finding->severity;
    }
    return worst;
}

int br_findings_count(const struct br_findings *findings, enum br_severity severity)
{
    int count = 0;
    for (int i = 0; i < findings->count; i++)
        count += findings->list[i].severity == severity;
    return count;
}

int br_findings_cause(const struct br_findings *findings, const struct br_survey *survey,
                      uint32_t port)
{
    for (int i = 0; i < findings->count; i++) {
        const struct br_finding *finding = &findings->list[i];
        for (int p = 0; finding->breaks && p < finding->n_locations; p++) {
            const struct br_location *place = &finding->locations[p];
            if ((place->kind == BR_LOCATION_PORT && place->number == port) ||
                (place->kind == BR_LOCATION_HOST &&
                 place->number == br_survey_host_of(survey, port)) ||
                (place->kind == BR_LOCATION_SWITCH &&
                 place->number == br_survey_switch_of(survey, port)))
                return i;
        }
    }
    return -1;
}

static bool finding_before(const struct br_finding *a, const struct br_finding *b)
{
    if (a->severity != b->severity)
        return a->severity > b->severity;
    return strcmp(a->code, b->code) < 0;
}

void br_findings_sort(struct br_findings *findings)
{
    for (int i = 1; i < findings->count; i++) { /* insertion: few, and stable */
        struct br_finding moved = findings->list[i];
        int j = i;
        for (; j > 0 && finding_before(&moved, &findings->list[j - 1]); j--)
            findings->list[j] = findings->list[j - 1];
        findings->list[j] = moved;
    }
}

void br_findings_destroy(struct br_findings *findings)
{
    free(findings->list);
    *findings = (struct br_findings){0};
}
