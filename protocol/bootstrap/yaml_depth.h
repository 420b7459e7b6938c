/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bound on how deep YAML is nested, before it is loaded: at every token libyaml's scanner looks
 * at all brackets that are open, which for 100,000 of them takes 15 s.
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_YAML_DEPTH_H
#define BR_PROTOCOL_BOOTSTRAP_YAML_DEPTH_H

#include <stddef.h>

/* Scans the tokens. 0, also for what is no YAML at all, which the loader has words for; -EINVAL
 * with a message "file:line: ..." at more than 32 levels; -ENOMEM. */
int br_yaml_check_depth(const char *text, size_t bytes, const char *file);

#endif
