/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which back end runs between hosts. BRAID_BACKEND says so; where it says `auto`, verbs if all
 * ranks have RDMA devices for it, else tcp.
 *
 * 1. One answer for the whole job: with a choice for each pair of ranks, links of unequal speed
 *    would meet in every collective, and one rank with a cable out would go unnoticed.
 * 2. RDMA devices at all ranks do not prove that there is a way between them. Where there is none,
 *    braid_init() fails, as with TCP: the message names the ranks and both devices, and
 *    BRAID_BACKEND=tcp is the way out.
 */
#ifndef BR_COLLECTIVES_COMM_BACKEND_H
#define BR_COLLECTIVES_COMM_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include "transport/verbs/capabilities.h"

struct br_context;
struct br_settings;

/* Finds what this rank can use. Sets settings->network, unless the other ranks have to be asked.
 * Blocks on the file system. Returns 0; -E2BIG or -EINVAL (BRAID_DEVICES) with a message. */
int br_backend_query(struct br_settings *settings, struct br_verbs_capabilities *out);

/*
 * Decides settings.network. Collective over all ranks, whatever their settings; the store must be
 * open. Where some ranks have RDMA devices that stay unused, rank 0 logs a warning that names the
 * rank that cannot use them. Blocks until `until` (ns) at most. Returns 0; an error of the store;
 * or -EPROTO with a message: some ranks insist on verbs, and others cannot.
 */
int br_backend_agree(struct br_context *context, const struct br_verbs_capabilities *mine,
                     uint64_t until);

/* Can all ranks use verbs? If not, `why` names the first rank that cannot. offers[0..n) come from
 * other processes and are not trusted. */
bool br_backend_is_verbs(const struct br_verbs_capabilities *offers, int n, char *why,
                         size_t bytes);

#endif
