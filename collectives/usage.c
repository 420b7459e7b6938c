/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/usage.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "collectives/type.h"

static struct br_usage *find(struct br_usages *usages, const struct br_operation *op, size_t bytes,
                             uint32_t ranks)
{
    struct br_usage *entry = usages->entries, *end = entry + usages->n;
    bool asked = op->algorithm[0] && strcmp(op->algorithm, "auto") != 0;

    for (; entry < end; entry++)
        if (entry->bytes == bytes && entry->collective == op->collective && entry->ranks == ranks &&
            entry->asked == asked && br_way_equal(&entry->choice.way, op->way))
            return entry;
    if (usages->n == BR_USAGES)
        return NULL;
    usages->n++;
    *entry = (struct br_usage){.collective = op->collective, .bytes = bytes, .ranks = ranks, .asked = asked};
    entry->choice =
        (struct br_choice){.way = *op->way, .fragments = op->fragments.count, .seconds = op->predicted};
    return entry;
}

void br_usages_add(struct br_usages *usages, const struct br_operation *op, uint32_t ranks, uint64_t began,
                   uint64_t now)
{
    struct br_usage *entry = find(usages, op, op->count * br_type_size(op->type), ranks);

    if (!entry) {
        usages->unlisted++;
        return;
    }
    entry->count++;
    entry->ns += now - began;
}

void br_usages_print(const struct br_usages *usages, const struct br_cost_model *model, FILE *stream)
{
    fprintf(stream, "# %-14s %12s %6s  %-24s %8s %13s %12s  %s\n", "collective", "block (B)", "ranks",
            "algorithm", "times", "predicted us", "measured us", "why");
    for (uint32_t i = 0; i < usages->n; i++) {
        const struct br_usage *e = &usages->entries[i];
        char name[BR_WAY_TEXT], why[BR_CHOICE_WORDS] = "";

        if (model->topology && model->topology->n == e->ranks)
            br_choice_explain(model, e->collective, e->ranks, (double)e->bytes, &e->choice, why);
        fprintf(stream, "  %-14s %12zu %6u  %-24s %8llu %13.1f %12.1f  %s%s\n",
                br_collective_name(e->collective), e->bytes, e->ranks, br_way_name(&e->choice.way, name),
                (unsigned long long)e->count, e->choice.seconds * 1e6, (double)e->ns / 1e3 / (double)e->count,
                e->asked ? "as asked for; " : "cheapest; ", why);
    }
    if (usages->unlisted)
        fprintf(stream, "# and %llu operations of other sizes\n", (unsigned long long)usages->unlisted);
}

void br_usages_report(const struct br_usages *usages, const struct br_network *network, const char *more,
                      const char *path)
{
    FILE *stream = strcmp(path, "1") == 0 ? stderr : fopen(path, "w");
    char text[BR_TOPOLOGY_TEXT];

    if (!stream) {
        br_log_warn("BRAID_REPORT: %s: %s", path, strerror(errno));
        return;
    }
    fprintf(stream, "# braid report of rank 0, %s, %s figures; means of the time from the call to its end\n",
            br_topology_text(&network->topology, text), network->measured ? "measured" : "default");
    br_usages_print(usages, &network->model, stream);
    fputs(more, stream);
    if (stream != stderr)
        fclose(stream);
}
