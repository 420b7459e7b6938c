/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds and loads braid_dpdk.so when it is first needed, so that braid runs on hosts without
 * DPDK. */
#ifndef BR_TRANSPORT_DPDK_LIBRARY_H
#define BR_TRANSPORT_DPDK_LIBRARY_H

#include "transport/dpdk/module.h"

/* The module, for the life of the process; blocks in the file system. From any thread. -ENOENT with
 * words: it is not there, or DPDK is not, and which package mends it; -EPROTO with a message: it
 * belongs to another braid. */
int br_dpdk_library(const struct br_dpdk_module **out);

/* For tests: from now on this goes for the module; NULL: the real one again. Not while another
 * thread asks for it. */
void br_dpdk_library_replace(const struct br_dpdk_module *module);

#endif
