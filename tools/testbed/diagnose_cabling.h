/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by diagnose_cabling.c, which finds wrong cables, and diagnose_cabling_text.c, which
 * reports them. */
#ifndef BR_TOOLS_TESTBED_DIAGNOSE_CABLING_H
#define BR_TOOLS_TESTBED_DIAGNOSE_CABLING_H

#include "tools/testbed/diagnose.h"

#define BR_CABLING_GRAPH_NONE UINT32_MAX

enum br_cabling_fault_kind {
    BR_CABLING_FAULT_SWAP,   /* two cables of a host; a, b: ports */
    BR_CABLING_FAULT_HOSTS,  /* all cables of two hosts; a, b: hosts */
    BR_CABLING_FAULT_CROSS,  /* two cables of two hosts; a, b: ports */
    BR_CABLING_FAULT_MOVE,   /* one cable; a: port, b: the segment it belongs into */
    BR_CABLING_FAULT_SILENT, /* nothing passes through a port */
    BR_CABLING_FAULT_SWITCH, /* nothing passes through a switch; a: switch */
    BR_CABLING_FAULT_JOIN,   /* several switches are one; a: segment */
    BR_CABLING_FAULT_SPLIT,  /* one switch is several; a: switch */
};

struct br_cabling_fault {
    enum br_cabling_fault_kind kind;
    uint32_t a, b;
    double score; /* pairs that it explains, over its price */
};

struct br_cabling_graph {
    const struct br_survey *survey;
    struct br_findings *findings;
    uint32_t ports, switches, segments, max_segments; /* room: segments that there may be */
    uint32_t *segment;                                /* of a port; NONE: takes no part */
    uint32_t *size;                                   /* of a segment, in taking-part ports */
    uint32_t *members;                                /* of a switch, taking part */
    uint32_t *count;                                  /* [segment * switches + switch] */
    uint32_t *node_segment;                           /* of a node, as probed */
    bool *hears, *heard;                              /* of a port: any other NIC */
    bool *explained;                                  /* of a port */
};

/* of `count` */
uint32_t *br_cabling_graph_cell(const struct br_cabling_graph *graph, uint32_t segment,
                                uint32_t on);
uint32_t br_cabling_graph_switch_of(const struct br_cabling_graph *graph, uint32_t port);
/* of one that is found */
uint32_t br_cabling_graph_node_of(const struct br_survey *survey, uint32_t port);
/* Most ports of the switch, and at least two, are in the segment. */
bool br_cabling_graph_holds(const struct br_cabling_graph *graph, uint32_t segment, uint32_t on);

/* Adds the finding of a mishap; before it is put right in thought. */
void br_cabling_fault_report(struct br_cabling_graph *graph, const struct br_cabling_fault *fault);
/* Ports that others hear but that are deaf, or the other way round. */
void br_cabling_graph_report_one_way(struct br_cabling_graph *graph);
/* NICs that are not planned but hear planned ones, though those are where they belong. */
void br_cabling_graph_report_unknown(struct br_cabling_graph *graph);

#endif
