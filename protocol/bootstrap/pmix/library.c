/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/pmix/pmix.h"

#include "base/error.h"
#include "base/library.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct br_pmix_module *module;
static int failure; /* a negative errno, and its text, for each thread that asks */
static char failure_text[BR_ERROR_BYTES];
static const struct br_pmix_module *replacement; /* NULL: none */

static void pmix_library_load(void)
{
    static const struct br_library_symbol symbols[] = {{BR_PMIX_SYMBOL, 0}, {NULL, 0}};
    char path[PATH_MAX];
    const struct br_library library = {
        .name = "PMIx",
        .path = path,
        .install = "apt-get install libpmix2",
        .optional = symbols, /* a module without it belongs to another version of braid */
    };

    if (!br_library_find_module("BRAID_PMIX_MODULE", BR_PMIX_MODULE, path)) {
        failure = -ENOENT;
        snprintf(
            failure_text, sizeof failure_text,
            "this braid was built without PMIx: apt-get install libpmix-dev, then build it again");
        return;
    }
    failure = br_library_open(&library, &module, failure_text);
    if (!failure && (!module || module->version != BR_PMIX_VERSION)) {
        failure = -EPROTO;
        snprintf(failure_text, sizeof failure_text, "%.200s belongs to another version of braid",
                 path);
    }
}

int br_pmix_library(const struct br_pmix_module **out)
{
    if (replacement) {
        *out = replacement;
        return 0;
    }
    pthread_once(&once, pmix_library_load);
    *out = failure ? NULL : module;
    return failure ? br_error(-failure, "%s", failure_text) : 0;
}

void br_pmix_library_replace(const struct br_pmix_module *other)
{
    replacement = other;
}
