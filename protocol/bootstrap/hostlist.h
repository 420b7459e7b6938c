/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slurm's short forms of lists, as srun(1) and scontrol(1) write them. Pure.
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_HOSTLIST_H
#define BR_PROTOCOL_BOOTSTRAP_HOSTLIST_H

#include <stddef.h>
#include <stdint.h>

/*
 * The first host of a list such as "node[01-03,7],other": "node01". A name may have several
 * brackets, and text behind them: "rack[0-1]n[2-5]-ib" begins with "rack0n2-ib". Returns 0, or
 * -EINVAL with a message: no list of hosts, or a name that does not fit.
 */
int br_hostlist_first(const char *list, char *out, size_t bytes);

/* The number for one node of a list such as "2(x3),1", which stands for 2,2,2,1; nodes count from
 * 0. Returns 0, or -EINVAL with a message. */
int br_hostlist_count_at(const char *list, uint32_t node, uint32_t *out);

#endif
