/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared libraries that are opened when they are first needed, so that braid builds and runs on
 * hosts that lack them (libibverbs, librdmacm, the CUDA driver, DPDK).
 */
#ifndef BR_BASE_LIBRARY_H
#define BR_BASE_LIBRARY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* A symbol of the library, and where its address is stored: at `offset` bytes in the caller's
 * table. A list of symbols ends with one whose name is NULL. */
struct br_library_symbol {
    const char *name;
    size_t offset;
};

struct br_library {
    const char *name;    /* what errors call the library: "libibverbs" */
    const char *path;    /* as dlopen() takes it */
    const char *install; /* ends the error of a missing library: how to get it */
    const char *version; /* ends the error of a library that is too old: the oldest one that has all
                            needed symbols; NULL: the error does not say it */
    const struct br_library_symbol *needed;
    const struct br_library_symbol *optional; /* NULL: none */
    bool global; /* Libraries that are opened later may use the symbols of this one. */
};

/*
 * Opens a library and fills in the table: each needed symbol's address, and each optional symbol's
 * address or NULL. The library stays loaded until the process ends, because it may have threads and
 * exit handlers of its own.
 *
 * library: what to open; it is only read. table: the structure into which the symbols' offsets
 * point; it may be partly written when the call fails. text: receives the error, which names the
 * library and says how to get it.
 *
 * Returns 0; -ENOENT: the library, or a library that it needs, cannot be loaded; -ENOSYS: it lacks
 * a needed symbol. Blocks on the file system. From any thread, but one thread at a time for one
 * table. The caller remembers the result, as a second call would open the library again.
 */
int br_library_open(const struct br_library *library, void *table, char text[BR_ERROR_BYTES]);

/*
 * Finds a module of braid's own (braid_dpdk.so): a part of the library in a file of its own, which
 * is linked with what braid itself does not need. The environment variable `variable` names its
 * path; where it is not set or empty, the module is searched for beside whatever holds this code (a
 * build), one folder above (the tests of a build), and where `cmake --install` puts it.
 *
 * file: the module's name. out: receives its path. Returns whether there is one; a path from the
 * variable is not tried. Reads the file system. No other thread may call setenv() meanwhile.
 */
bool br_library_find_module(const char *variable, const char *file, char out[PATH_MAX]);

#endif
