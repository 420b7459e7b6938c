/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a link between hosts costs, measured when a job begins: rank 0 sends messages to the first
 * rank on another host and back. For the choice of algorithms:
 * doc/design/cost_model.md, section 4.
 */
#ifndef BR_COLLECTIVES_COMM_LINK_TRIAL_H
#define BR_COLLECTIVES_COMM_LINK_TRIAL_H

struct br_context;

/* Collective, while the store is open and after the start of the progress thread. All ranks choose
 * by what rank 0 has measured then. Blocks until context->init_deadline at most. Errors of the
 * messages and of the store, with a message. */
int br_link_trial(struct br_context *context);

#endif
