/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/dpdk/library.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>

#include "base/error.h"
#include "base/library.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct br_dpdk_module *module;
static int failure; /* A negative errno, and its text, for each thread that asks. */
static char failure_text[BR_ERROR_BYTES];
static const struct br_dpdk_module *replacement; /* NULL: none */

/* The least that DPDK's packages are built for; its libraries end a program with less while they
 * are loaded. */
static bool runs_here(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
#else
    return true;
#endif
}

static void dpdk_library_load(void)
{
    static const struct br_library_symbol symbols[] = {{BR_DPDK_SYMBOL, 0}, {NULL, 0}};
    char path[PATH_MAX];
    const struct br_library library = {
        .name = "DPDK",
        .path = path,
        .install = "apt-get install librte-ethdev23 librte-mempool-ring23 librte-bus-vdev23, and a "
                   "driver such as librte-net-af-packet23",
        .optional = symbols, /* A module without it belongs to another version of braid. */
        .global = true,      /* Drivers look for symbols in each other. */
    };

    if (!runs_here()) {
        failure = -ENOTSUP;
        snprintf(failure_text, sizeof failure_text,
                 "DPDK needs a processor with SSE 4.2, and this one has none (in a virtual "
                 "machine: give it the host's, -cpu host)");
        return;
    }
    if (!br_library_find_module("BRAID_DPDK_MODULE", BR_DPDK_MODULE, path)) {
        failure = -ENOENT;
        snprintf(
            failure_text, sizeof failure_text,
            "this braid was built without DPDK: apt-get install libdpdk-dev, then build it again");
        return;
    }
    failure = br_library_open(&library, &module, failure_text);
    if (!failure && (!module || module->version != BR_DPDK_VERSION)) {
        failure = -EPROTO;
        snprintf(failure_text, sizeof failure_text, "%.200s belongs to another version of braid",
                 path);
    }
}

int br_dpdk_library(const struct br_dpdk_module **out)
{
    if (replacement) {
        *out = replacement;
        return 0;
    }
    pthread_once(&once, dpdk_library_load);
    *out = failure ? NULL : module;
    return failure ? br_error(-failure, "%s", failure_text) : 0;
}

void br_dpdk_library_replace(const struct br_dpdk_module *other)
{
    replacement = other;
}
