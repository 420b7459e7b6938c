/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef BRAID_MODULES /* where it is installed, seen from the folder above the one of libraries or \
                         commands */
#define BRAID_MODULES "lib/braid"
#endif

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

bool br_library_find_module(const char *variable, const char *file, char out[PATH_MAX])
{
    static const char *const places[] = {"", "/..", "/braid", "/../" BRAID_MODULES,
                                         "/../../" BRAID_MODULES};
    const char *named = getenv(variable);
    char folder[PATH_MAX];
    Dl_info self;
    char *end;

    if (named && *named)
        return snprintf(out, PATH_MAX, "%s", named) < PATH_MAX;
    if (!dladdr(places, &self) || !self.dli_fname)
        return false;
    /* Of a program it is what somebody has typed; of a library it is a path. */
    if (!realpath(*self.dli_fname == '/' ? self.dli_fname : "/proc/self/exe", folder))
        return false;
    end = strrchr(folder, '/');
    if (!end)
        return false;
    *end = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (snprintf(out, PATH_MAX, "%s%s/%s", folder, places[i], file) < PATH_MAX &&
            !access(out, R_OK))
            return true;
    return false;
}
