/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/library.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/library.h"

#define FIELD(field, symbol) {#symbol, offsetof(struct br_verbs_library, field)},

static const struct br_library_symbol verbs_needed[] = {BR_VERBS_SYMBOLS(FIELD){NULL, 0}};
static const struct br_library_symbol verbs_optional[] = {BR_VERBS_OPTIONAL(FIELD){NULL, 0}};
static const struct br_library_symbol cm_needed[] = {BR_VERBS_CM_SYMBOLS(FIELD){NULL, 0}};

static const struct br_library verbs = {
    .name = "libibverbs",
    .path = "libibverbs.so.1",
    .install = "apt-get install libibverbs1 ibverbs-providers",
    .needed = verbs_needed,
    .optional = verbs_optional,
};
static const struct br_library cm = {
    .name = "librdmacm",
    .path = "librdmacm.so.1",
    .install = "apt-get install librdmacm1",
    .needed = cm_needed,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct br_verbs_library table;
static int failure; /* A negative errno, and its text, for each thread that asks. */
static char failure_text[BR_ERROR_BYTES];
static const struct br_verbs_library *replacement; /* NULL: none */

static void verbs_library_load(void)
{
    failure = br_library_open(&verbs, &table, failure_text);
    if (!failure)
        br_library_open(&cm, &table, table.cm_why_not);
}

int br_verbs_library(const struct br_verbs_library **out)
{
    if (replacement) {
        *out = replacement;
        return 0;
    }
    pthread_once(&once, verbs_library_load);
    *out = failure ? NULL : &table;
    return failure ? br_error(-failure, "%s", failure_text) : 0;
}

void br_verbs_library_replace(const struct br_verbs_library *other)
{
    replacement = other;
}

int br_verbs_query_port(const struct br_verbs_library *library, struct ibv_context *context,
                        uint8_t port, struct ibv_port_attr *out)
{
    struct verbs_context *extended = verbs_get_ctx_op(context, query_port);

    if (extended)
        return extended->query_port(context, port, out, sizeof *out);
    memset(out, 0, sizeof *out);
    return library->query_port_compat(context, port, (struct _compat_ibv_port_attr *)out);
}
