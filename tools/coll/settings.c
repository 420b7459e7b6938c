/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/coll/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "collectives/schedule/type.h"
#include "tools/common/options.h"

#define MOST_BYTES (1ll << 44)

/* Options whose text needs more than a range. */
struct texts {
    const char *type, *reduction, *root;
    int64_t threads, gpus;
};

static int parse_lists(struct br_coll_settings *s, const struct texts *texts)
{
    if (!strcmp(texts->type, "all")) {
        s->type_count = BRAID_TYPES;
        for (int i = 0; i < BRAID_TYPES; i++)
            s->types[i] = (enum braid_type)i;
    } else {
        s->type_count = 1;
        int rc = br_type_parse(texts->type, &s->types[0]);
        if (rc)
            return br_error_prefix(rc, "--datatype: ");
    }
    s->reduction_count = 1;
    if (strcmp(texts->reduction, "all") != 0) {
        int rc = br_reduction_parse(texts->reduction, &s->reductions[0]);
        return rc ? br_error_prefix(rc, "--op: ") : 0;
    }
    s->reduction_count = s->kind->reduces ? BRAID_REDUCTIONS : 1;
    for (int i = 0; i < s->reduction_count; i++)
        s->reductions[i] = (enum braid_reduction)i;
    return 0;
}

static int parse_root(struct br_coll_settings *s, const char *text)
{
    char *end;
    errno = 0;
    long root = strtol(text, &end, 10);
    s->root = -1;
    if (!strcmp(text, "all"))
        return 0;
    if (errno || end == text || *end || root < 0 || root > INT32_MAX)
        return br_error(EINVAL, "--root %s: must be a rank or `all`", text);
    s->root = (int)root;
    return 0;
}

static int coll_settings_check(const struct br_coll_settings *s, const struct texts *texts)
{
    if (s->min_bytes > s->max_bytes)
        return br_error(EINVAL, "--minbytes %" PRId64 " is more than --maxbytes %" PRId64,
                        s->min_bytes, s->max_bytes);
    if (s->step_factor > 1 && s->min_bytes == 0)
        return br_error(
            EINVAL, "--minbytes 0 times a factor stays 0: use --stepbytes, or start at 1 or more");
    if (strcmp(s->memory, "alloc") != 0 && strcmp(s->memory, "malloc") != 0)
        return br_error(EINVAL, "--memory %s: must be alloc or malloc", s->memory);
    if (texts->threads != 1 || texts->gpus != 1)
        return br_error(EINVAL,
                        "one rank is one process: start more with `braid run -n N -- braid %s ...`",
                        s->kind->name);
    return 0;
}

static int coll_settings_parse(struct br_coll_settings *s, struct texts *t, int argc, char **argv)
{
    const struct br_option options[] = {
        {"minbytes", 'b', BR_OPTION_BYTES, &s->min_bytes, 0, MOST_BYTES,
         "SIZE smallest size; default 32M"},
        {"maxbytes", 'e', BR_OPTION_BYTES, &s->max_bytes, 0, MOST_BYTES,
         "SIZE largest size; default 32M"},
        {"stepbytes", 'i', BR_OPTION_BYTES, &s->step_bytes, 1, MOST_BYTES,
         "SIZE from one size to the next; default 1M"},
        {"stepfactor", 'f', BR_OPTION_NUMBER, &s->step_factor, 1, 1 << 20,
         "N times instead of plus; default 1: plus"},
        {"iters", 'n', BR_OPTION_NUMBER, &s->iterations, 1, 1 << 30,
         "N timed calls a size; default 20"},
        {"warmup_iters", 'w', BR_OPTION_NUMBER, &s->warmup, 0, 1 << 30,
         "N calls before, not timed; default 5"},
        {"check", 'c', BR_OPTION_NUMBER, &s->checks, 0, 1 << 20,
         "N calls whose result is checked; default 1, 0: none"},
        {"op", 'o', BR_OPTION_TEXT, &t->reduction, 0, 0,
         "OP sum, prod, min, max, avg, band, bor, bxor, land, lor, lxor or all; default sum"},
        {"datatype", 'd', BR_OPTION_TEXT, &t->type, 0, 0,
         "TYPE float, half, int8, complex64, ... or all; default float"},
        {"root", 'r', BR_OPTION_TEXT, &t->root, 0, 0, "RANK or all; default 0"},
        {"average", 'a', BR_OPTION_NUMBER, &s->average, 0, 3,
         "N time of rank 0, 1 mean, 2 least, 3 most; default 1"},
        {"blocking", 'z', BR_OPTION_NUMBER, &s->barrier, 0, 1,
         "0|1 a barrier after each call; default 0"},
        {"timeout", 'T', BR_OPTION_NUMBER, &s->timeout, 0, 86400,
         "SECONDS for one call; default: the library's"},
        {"nthreads", 't', BR_OPTION_NUMBER, &t->threads, 1, 1 << 20,
         "N only 1: use `braid run -n N`"},
        {"ngpus", 'g', BR_OPTION_NUMBER, &t->gpus, 1, 1 << 20, "N only 1: use `braid run -n N`"},
        {"algorithm", 0, BR_OPTION_TEXT, &s->algorithm, 0, 0,
         "NAME as `braid info` lists them; default auto"},
        {"backend", 0, BR_OPTION_TEXT, &s->backend, 0, 0,
         "NAME auto, tcp, udp, dpdk, verbs or shm; default auto"},
        {"rails", 0, BR_OPTION_NUMBER, &s->rails, 1, 64,
         "N connections to each peer; default: one a device"},
        {"priority", 0, BR_OPTION_NUMBER, &s->priority, INT32_MIN, INT32_MAX,
         "N larger is more urgent; default 0"},
        {"slice-bytes", 0, BR_OPTION_BYTES, &s->slice_bytes, 1, 1 << 30,
         "SIZE unit of scheduling; default 256K (BRAID_SLICE_BYTES)"},
        {"seed", 0, BR_OPTION_NUMBER, &s->seed, 0, INT64_MAX, "N of the data; default 1"},
        {"async", 0, BR_OPTION_NUMBER, &s->depth, 1, 64,
         "N calls under way at once; default 1: each blocks"},
        {"memory", 0, BR_OPTION_TEXT, &s->memory, 0, 0,
         "KIND alloc (braid_alloc) or malloc; default alloc"},
        {"json", 0, BR_OPTION_TEXT, &s->json, 0, 0, "FILE write the results there too"},
        {0},
    };
    char usage[96];

    snprintf(usage, sizeof usage, "[braid run -n N --] braid %s [options]", argv[0]);
    return br_options_parse(options, usage, argc, argv);
}

int br_coll_settings_parse(struct br_coll_settings *settings, int argc, char **argv)
{
    struct texts texts = {
        .type = "float32", .reduction = "sum", .root = "0", .threads = 1, .gpus = 1};
    const char *backend = getenv("BRAID_BACKEND");
    *settings = (struct br_coll_settings){
        .backend = backend && *backend ? backend : NULL,
        .kind = br_coll_find(argv[0]),
        .min_bytes = 32 << 20,
        .max_bytes = 32 << 20,
        .step_bytes = 1 << 20,
        .step_factor = 1,
        .iterations = 20,
        .warmup = 5,
        .checks = 1,
        .average = BR_AVERAGE_MEAN,
        .depth = 1,
        .seed = 1,
        .memory = "alloc",
    };
    if (!settings->kind)
        return br_error(EINVAL, "there is no collective '%s'", argv[0]);
    int rc = coll_settings_parse(settings, &texts, argc, argv);
    if (!rc)
        rc = parse_lists(settings, &texts);
    if (!rc)
        rc = parse_root(settings, texts.root);
    return rc ? rc : coll_settings_check(settings, &texts);
}
