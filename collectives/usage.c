/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/usage.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
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
    char text[BR_TOPOLOGY_TEXT];
    struct br_file file = {0};
    FILE *stream = stderr;

    if (strcmp(path, "1") != 0) {
        if (br_file_open(&file, "BRAID_REPORT", path, false)) {
            br_log_warn("%s", br_error_words());
            return;
        }
        stream = file.stream;
    }
    fprintf(stream, "# braid report of rank 0, %s, %s figures; means of the time from the call to its end\n",
            br_topology_text(&network->topology, text), network->measured ? "measured" : "default");
    br_usages_print(usages, &network->model, stream);
    fputs(more, stream);
    if (br_file_close(&file, "BRAID_REPORT", 0))
        br_log_warn("%s", br_error_words());
}
