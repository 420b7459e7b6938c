/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Meetings: how the members of a group speak to each other before they have a communicator. It is a
 * communicator of the library's own over all ranks of the job, on which only messages are sent; its
 * tags say which parent and which tag of the program a meeting is about. doc/design/split.md,
 * section 5.
 */
#ifndef BR_COLLECTIVES_COMM_MEETING_H
#define BR_COLLECTIVES_COMM_MEETING_H

struct br_context;

/* Called before anything is submitted. Returns 0, or -ENOMEM with a message. */
int br_meeting_open(struct br_context *context);
/* No message may be under way. */
void br_meeting_close(struct br_context *context);

#endif
