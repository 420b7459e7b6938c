/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define FIELD(field, symbol) {#symbol, offsetof(struct br_verbs_library, field)},

struct symbol {
    const char *name;
    size_t offset;
};

static const struct symbol needed[] = {BR_VERBS_SYMBOLS(FIELD){NULL, 0}};
static const struct symbol optional[] = {BR_VERBS_OPTIONAL(FIELD){NULL, 0}};
static const struct symbol cm[] = {BR_VERBS_CM_SYMBOLS(FIELD){NULL, 0}};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct br_verbs_library table;
static int failure; /* errno; its message beside it, since every thread that asks wants them */
static char verbs_library_message[200];
static const struct br_verbs_library *replacement; /* NULL: none */

/* NULL, or the first symbol that the library lacks. */
static const char *verbs_library_resolve(void *handle, const struct symbol *symbols)
{
    const char *lacking = NULL;

    for (; symbols->name; symbols++) {
        void *address = dlsym(handle, symbols->name);
        if (!address && !lacking)
            lacking = symbols->name;
        memcpy((char *)&table + symbols->offset, &address, sizeof address);
    }
    return lacking;
}

static void load_cm(void)
{
    /* RTLD_NODELETE: libraries with threads and at-exit handlers of their own are not to go before
     * the process. */
    void *handle = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *lacking = handle ? verbs_library_resolve(handle, cm) : NULL;

    if (!handle)
        snprintf(table.cm_why_not, sizeof table.cm_why_not,
                 "librdmacm cannot be loaded (%.90s): apt-get install librdmacm1", dlerror());
    else if (lacking)
        snprintf(table.cm_why_not, sizeof table.cm_why_not,
                 "librdmacm.so.1 is too old: it has no %s", lacking);
}

static void verbs_library_load(void)
{
    void *handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *lacking = handle ? verbs_library_resolve(handle, needed) : NULL;

    if (!handle) {
        failure = ENOENT;
        snprintf(
            verbs_library_message, sizeof verbs_library_message,
            "libibverbs cannot be loaded (%.80s): apt-get install libibverbs1 ibverbs-providers",
            dlerror());
    } else if (lacking) {
        failure = ENOSYS;
        snprintf(verbs_library_message, sizeof verbs_library_message,
                 "libibverbs.so.1 is too old: it has no %s", lacking);
    } else {
        verbs_library_resolve(handle, optional);
        load_cm();
    }
}

int br_verbs_library(const struct br_verbs_library **out)
{
    if (replacement) {
        *out = replacement;
        return 0;
    }
    pthread_once(&once, verbs_library_load);
    *out = failure ? NULL : &table;
    return failure ? br_error(failure, "%s", verbs_library_message) : 0;
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
