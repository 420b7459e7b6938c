/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Network namespaces with names, as `ip netns` makes and sees them: a bind mount below /run/netns. An emulated host is one.
 */
#ifndef BR_TOOLS_BCUBE_NAMESPACE_H
#define BR_TOOLS_BCUBE_NAMESPACE_H

#include <stddef.h>
#include <sys/types.h>

#define BR_NAMESPACE_NAME 64 /* bytes of a name, the final zero included */

/* The namespace as an open file, closed on exec. -ENOENT and others with words. */
int br_namespace_open(const char *name);

/*
 * Moves the calling process, which must have one thread, into the namespace for good: its network, a mount namespace of its own whose
 * /sys shows that network, and `hostname` (NULL: as before) as its host's name. For a child that is about to exec.
 * Negative errno with words.
 */
int br_namespace_enter(const char *name, const char *hostname);

#endif
