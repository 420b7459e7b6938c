/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Network namespaces with names, as `ip netns` makes and sees them: a bind mount below /run/netns.
 * An emulated host is one.
 */
#ifndef BR_TOOLS_TESTBED_NAMESPACE_H
#define BR_TOOLS_TESTBED_NAMESPACE_H

#include <stddef.h>
#include <sys/types.h>

#define BR_NAMESPACE_NAME 64 /* bytes of a name, the final zero included */

/* Makes a namespace, empty but for an lo that is down. -EEXIST and others with a message. The
 * process must have one thread. */
int br_namespace_add(const char *name);

/* Takes its name away; it ends with the last process inside. Not being there is no error. Negative
 * errno with a message. */
int br_namespace_remove(const char *name);

/* Sends a signal (0: none) to each process inside but the calling one. Returns how many there were;
 * 0 when there is no such namespace. */
int br_namespace_signal(const char *name, int number);

/* Calls visit(with) with the calling process, which must have one thread, in the namespace, and
 * returns what it returns; or a negative errno with a message. Sockets opened and sysctls written
 * there stay the namespace's. */
int br_namespace_visit(const char *name, int (*visit)(void *with), void *with);

/* The namespace as an open file, closed on exec. -ENOENT and others with a message. */
int br_namespace_open(const char *name);

/*
 * Moves the calling process, which must have one thread, into the namespace for good: its network,
 * a mount namespace of its own whose /sys shows that network, and `hostname` (NULL: as before) as
 * its host's name. For a child that is about to exec. Negative errno with a message.
 */
int br_namespace_enter(const char *name, const char *hostname);

#endif
