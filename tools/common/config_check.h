/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that all ranks of a job were given the same options. Ranks with other options would wait
 * for messages that are never sent. */
#ifndef BR_TOOLS_COMMON_CONFIG_CHECK_H
#define BR_TOOLS_COMMON_CONFIG_CHECK_H

#include <stdint.h>

#include <braid/braid.h>

#define BR_CONFIG_OPTIONS_MAX 8

struct br_config_option {
    const char *name; /* of the option, without the dashes; NULL ends the table */
    int64_t value;    /* from -INT64_MAX on */
};

/* A digest of a text, as a value of an option. */
int64_t br_config_text(const char *text);

/* Collective. -EINVAL on all ranks, with a message that names the first option that differs. At
 * most BR_CONFIG_OPTIONS_MAX. */
int br_config_options_agree(struct braid_comm *comm, const struct br_config_option *options);

#endif
