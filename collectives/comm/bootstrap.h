/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks of a job find each other and connect. */
#ifndef BR_COLLECTIVES_COMM_BOOTSTRAP_H
#define BR_COLLECTIVES_COMM_BOOTSTRAP_H

struct br_context;

/* Opens the store and the devices, agrees on settings and back end, and publishes this rank's
 * addresses. Collective over all ranks; blocks until context->init_deadline at most. Returns 0, or
 * a negative errno with a message; br_bootstrap_end() cleans up in both cases. */
int br_bootstrap_join(struct br_context *context);

/* Connects this rank to the others. Blocks until context->init_deadline at most. Errors as above.
 */
int br_bootstrap_connect(struct br_context *context);

/* Returns 0 when every rank has come here, and a link was measured where none is known
 * (link_trial.h), and closes the store. Collective; blocks until context->init_deadline at most.
 * Errors as above. */
int br_bootstrap_meet(struct br_context *context);

/* Closes the store, if it is open. */
void br_bootstrap_end(struct br_context *context);

#endif
