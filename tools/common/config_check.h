/* SPDX-License-Identifier: BSD-3-Clause */
/* Do all ranks of a job do the same? Ranks with other options would wait for what nobody sends. */
#ifndef BR_TOOLS_COMMON_CONFIG_CHECK_H
#define BR_TOOLS_COMMON_CONFIG_CHECK_H

#include <stdint.h>

#include <braid/braid.h>

#define BR_CONFIG_OPTIONS_MAX 8

struct br_config_option {
    const char *name; /* of the option, without the dashes; NULL ends the table */
    int64_t value;    /* from -INT64_MAX on */
};

/* A number for a text: other texts have other ones, but for chance. */
int64_t br_config_text(const char *text);

/* Collective. -EINVAL on all ranks, with a message that names the first option that differs. At
 * most BR_CONFIG_OPTIONS_MAX. */
int br_config_options_agree(struct braid_comm *comm, const struct br_config_option *options);

#endif
