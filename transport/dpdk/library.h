/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds and loads braid_dpdk.so when it is first needed, so that braid runs on hosts without
 * DPDK. */
#ifndef BR_TRANSPORT_DPDK_LIBRARY_H
#define BR_TRANSPORT_DPDK_LIBRARY_H

#include "transport/dpdk/module.h"

/*
 * Returns the module in *out, valid for the life of the process; NULL on failure. The first call
 * loads it and blocks on the file system. From any thread. Errors come with a message: -ENOENT: the
 * module or DPDK is missing, and which package to install; -ENOTSUP: the processor is too old;
 * -EPROTO: the module belongs to another version of braid.
 */
int br_dpdk_library(const struct br_dpdk_module **out);

/* For tests: replaces the module from now on; NULL: the real one again. Not while another thread
 * calls br_dpdk_library(). */
void br_dpdk_library_replace(const struct br_dpdk_module *module);

#endif
