/* SPDX-License-Identifier: BSD-3-Clause */
/* The agents on all hosts, and questions to many of them at once. Not thread-safe; asking
 * blocks. */
#ifndef BR_TOOLS_TESTBED_AGENTS_H
#define BR_TOOLS_TESTBED_AGENTS_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "protocol/bootstrap/inventory.h"
#include "tools/testbed/remote.h"

struct br_agents_host {
    struct br_remote_host host; /* texts belong to the inventory */
    struct br_remote remote;
    bool alive;
    char message[256]; /* why it is not */
    char *line;        /* what has been read of an answer */
    size_t used, capacity;
    char *question; /* what is left to write */
    size_t sent, length;
    bool waiting;
    cJSON *answer; /* to the last question; NULL: none came, or it says an error */
};

struct br_agents {
    int count; /* hosts of the inventory, by number */
    struct br_agents_host *list;
};

/*
 * Starts `program` ("braid" over ssh, this program in the emulation, NULL for these) with the
 * arguments "bcube agent" on each host that is not missing. One that cannot be started is not alive
 * and says why. -ENOMEM with a message.
 */
int br_agents_start(struct br_agents *agents, const struct br_inventory *inventory,
                    const char *program);

/*
 * Sends questions[i] to agent i (NULL: none, also to one that is not alive), waits for the answers,
 * and deletes the questions. An agent that does not answer in time or ends is not alive from then
 * on. An answer with an error leaves the agent alive, `answer` NULL and its message in `text`.
 */
void br_agents_ask(struct br_agents *agents, cJSON **questions, int timeout_ms);

/* The same question for all. Deletes it. */
void br_agents_ask_all(struct br_agents *agents, cJSON *question, int timeout_ms);

void br_agents_stop(struct br_agents *agents); /* also of a zeroed one */

#endif
