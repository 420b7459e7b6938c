/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of built-in back ends, in order of preference; a new one adds its declaration and its
 * line. */
#ifndef BR_TRANSPORT_BACKENDS_H
#define BR_TRANSPORT_BACKENDS_H

#include "transport/transport.h"

extern const struct br_transport_ops br_shm_ops;
extern const struct br_transport_ops br_tcp_ops;
extern const struct br_transport_ops br_sim_ops;
extern const struct br_transport_ops br_verbs_ops;
extern const struct br_transport_ops br_udp_ops;
extern const struct br_transport_ops br_dpdk_ops;

#ifdef BRAID_VERBS
#define BR_BACKEND_VERBS &br_verbs_ops,
#else
#define BR_BACKEND_VERBS
#endif

/* clang-format off */
#define BR_BACKENDS \
    &br_shm_ops, \
    &br_tcp_ops, \
    BR_BACKEND_VERBS \
    &br_udp_ops, \
    &br_dpdk_ops, \
    &br_sim_ops,
/* clang-format on */

#endif
