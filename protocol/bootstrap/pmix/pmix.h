/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launchers that are PMIx servers: Open MPI's mpirun, `srun --mpi=pmix`, PRRTE, Flux with its
 * plug-in. br_launcher_pmix (launcher.h) speaks with them through braid_pmix.so (module.h).
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_PMIX_PMIX_H
#define BR_PROTOCOL_BOOTSTRAP_PMIX_PMIX_H

#include "protocol/bootstrap/pmix/module.h"

/* Loads the module, once in a process. Returns 0; -ENOENT: it or libpmix is missing; -EPROTO: it
 * belongs to another version of braid; with a message that names the package to install. From any
 * thread. */
int br_pmix_library(const struct br_pmix_module **out);

/* Puts another module in its place, for tests; NULL: none. */
void br_pmix_library_replace(const struct br_pmix_module *other);

#endif
