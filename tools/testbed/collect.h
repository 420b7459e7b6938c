/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fills a survey: the plan from the inventory, the rest by asking agents. Each step waits for its
 * answers; a host whose agent is lost on the way counts as not reached from then on.
 */
#ifndef BR_TOOLS_TESTBED_COLLECT_H
#define BR_TOOLS_TESTBED_COLLECT_H

#include "tools/testbed/agents.h"
#include "tools/testbed/survey.h"

struct br_collect {
    const struct br_inventory *inventory;
    struct br_agents *agents;
    struct br_survey *survey;
    bool full; /* more of everything */
    /* port number of each agent's echo service; 0: none. Owned */
    int *service;
    void (*progress)(const char *step); /* NULL: not called */
};

/* What the plan says. `testbed`: the emulation's name, for the remedy commands; NULL: none.
 * -ENOMEM with a message. */
int br_collect_plan(struct br_survey *survey, const struct br_inventory *inventory,
                    const char *testbed);

/* Facts of all hosts; again after the load, where only the counters are taken. */
void br_collect_facts(struct br_collect *collect, bool again);

/* Probes: which ports receive from which, and which interface each port is. -ENOMEM with a message.
 */
int br_collect_probes(struct br_collect *collect);

/* Who answers for which address. -ENOMEM with a message. */
int br_collect_arp(struct br_collect *collect);

/* Echoes: reached, lost, latency, path MTU; starts the services that the next ones need. -ENOMEM
 * with a message. */
int br_collect_echoes(struct br_collect *collect);

/*
 * Rates of each direction of each link. Alone: in rounds in which every NIC has at most one stream;
 * what comes out low is measured again and the better value counts. Together: every NIC sends and
 * receives at once.
 */
int br_collect_rates(struct br_collect *collect);

#define BR_TRIP_SIZES 5

/*
 * How long messages of several sizes take over each link, one stream a NIC at a time: us[link][i]
 * from sending sizes[i] bytes to hearing that they have arrived, a median; 0: not measured. After
 * the echoes.
 */
int br_collect_trips(struct br_collect *collect, const double sizes[BR_TRIP_SIZES],
                     double (*us)[BR_TRIP_SIZES]);

/* LLDP frames that came in since the probes, after waiting for one to be due. */
void br_collect_lldp(struct br_collect *collect, int wait_ms);

void br_collect_end(struct br_collect *collect);

#endif
