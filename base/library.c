/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Returns NULL, or the name of the first symbol that the library lacks. */
static const char *library_resolve(void *handle, const struct br_library_symbol *symbol,
                                   void *table)
{
    const char *lacking = NULL;

    for (; symbol && symbol->name; symbol++) {
        void *address = dlsym(handle, symbol->name);

        if (!address && !lacking)
            lacking = symbol->name;
        memcpy((char *)table + symbol->offset, &address, sizeof address);
    }
    return lacking;
}

int br_library_open(const struct br_library *library, void *table, char text[BR_ERROR_BYTES])
{
    int scope = library->global ? RTLD_GLOBAL : RTLD_LOCAL;
    void *handle = dlopen(library->path, RTLD_NOW | RTLD_NODELETE | scope);
    const char *lacking;

    if (!handle) {
        snprintf(text, BR_ERROR_BYTES, "%s cannot be loaded (%.120s): %s", library->name, dlerror(),
                 library->install);
        return -ENOENT;
    }
    lacking = library_resolve(handle, library->needed, table);
    if (lacking) {
        snprintf(text, BR_ERROR_BYTES, "%s (%.120s) is too old: it has no %s%s%s", library->name,
                 library->path, lacking, library->version ? "; braid needs " : "",
                 library->version ? library->version : "");
        return -ENOSYS;
    }
    library_resolve(handle, library->optional, table);
    return 0;
}
