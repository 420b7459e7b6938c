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

/* What this rank has to offer. Sets settings->network, unless the others have to be asked. -E2BIG,
 * -EINVAL (BRAID_DEVICES) with a message. Blocks in the file system. */
int br_backend_query(struct br_settings *settings, struct br_verbs_capabilities *out);

/*
 * Settles settings.network. Collective, on all ranks whatever they want; the store must be open.
 * Its errors, and -EPROTO with a message: some insist on verbs, and others cannot. Where some have
 * RDMA devices in vain, rank 0 logs a warning that says on whose account. Blocks until `until`, ns,
 * at most.
 */
int br_backend_agree(struct br_context *context, const struct br_verbs_capabilities *mine,
                     uint64_t until);

/* Can all of them use verbs? Else `why` names the first rank that stands in the way. offers[0..n)
 * come from other processes. */
bool br_backend_is_verbs(const struct br_verbs_capabilities *offers, int n, char *why,
                         size_t bytes);

#endif
