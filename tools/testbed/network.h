/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network of a testbed: a namespace a host, a veth pair a NIC and its cable, a bridge a switch,
 * all bridges in one more namespace, a tbf at both ends of every cable, and the management network,
 * a bridge that every host has an unshaped NIC on. The machine's own network is not touched. With
 * the testbed's loopback nothing is made, and all of these do nothing. Blocking, not thread-safe,
 * one thread.
 */
#ifndef BR_TOOLS_TESTBED_NETWORK_H
#define BR_TOOLS_TESTBED_NETWORK_H

#include <signal.h>

#include "tools/testbed/faults.h"
#include "tools/testbed/testbed.h"

/* 0; -EEXIST with a message when a namespace of one of its names is there already, which is then
 * somebody else's. */
int br_network_check(const struct br_testbed *testbed);

/* Makes it all, healthy. Negative errno with a message; -EINTR when *stop became non-zero. What was
 * made so far stays: br_network_remove() removes it. */
int br_network_make(const struct br_testbed *testbed, const volatile sig_atomic_t *stop);

/* Sets every NIC, cable and switch to what the list says. Traffic of what does not change is not
 * disturbed. */
int br_network_apply(const struct br_testbed *testbed, const struct br_faults *faults);

/* Ends the processes inside, SIGTERM first and SIGKILL a second later, then removes whatever there
 * is of the network, made completely or not. *ended: how many processes there were. */
int br_network_remove(const struct br_testbed *testbed, int *ended);

#endif
