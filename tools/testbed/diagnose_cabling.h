/* SPDX-License-Identifier: BSD-3-Clause */
/* What diagnose_cabling.c (finding mishaps) and diagnose_cabling_words.c (saying them) share. */
#ifndef BR_TOOLS_TESTBED_DIAGNOSE_CABLING_H
#define BR_TOOLS_TESTBED_DIAGNOSE_CABLING_H

#include "tools/testbed/diagnose.h"

#define BR_TANGLE_NONE UINT32_MAX

enum br_mishap_kind {
    BR_MISHAP_SWAP,   /* two cables of a host; a, b: ports */
    BR_MISHAP_HOSTS,  /* all cables of two hosts; a, b: hosts */
    BR_MISHAP_CROSS,  /* two cables of two hosts; a, b: ports */
    BR_MISHAP_MOVE,   /* one cable; a: port, b: the segment it belongs into */
    BR_MISHAP_SILENT, /* nothing passes through a port */
    BR_MISHAP_SWITCH, /* nothing passes through a switch; a: switch */
    BR_MISHAP_JOIN,   /* several switches are one; a: segment */
    BR_MISHAP_SPLIT,  /* one switch is several; a: switch */
};

struct br_mishap {
    enum br_mishap_kind kind;
    uint32_t a, b;
    double worth; /* pairs that it explains, over its price */
};

struct br_tangle {
    const struct br_survey *survey;
    struct br_findings *findings;
    uint32_t ports, switches, segments, room; /* room: segments that there may be */
    uint32_t *segment;                        /* of a port; NONE: takes no part */
    uint32_t *size;                           /* of a segment, in taking-part ports */
    uint32_t *members;                        /* of a switch, taking part */
    uint32_t *count;                          /* [segment * switches + switch] */
    uint32_t *node_segment;                   /* of a node, as probed */
    bool *hears, *heard;                      /* of a port: any other NIC */
    bool *explained;                          /* of a port */
};

/* of `count` */
uint32_t *br_tangle_cell(const struct br_tangle *tangle, uint32_t segment, uint32_t on);
uint32_t br_tangle_switch_of(const struct br_tangle *tangle, uint32_t port);
/* of one that is found */
uint32_t br_tangle_node_of(const struct br_survey *survey, uint32_t port);
/* Most ports of the switch, and at least two, are in the segment. */
bool br_tangle_holds(const struct br_tangle *tangle, uint32_t segment, uint32_t on);

/* Adds the finding of a mishap; before it is put right in thought. */
void br_mishap_report(struct br_tangle *tangle, const struct br_mishap *mishap);
/* Ports that others hear but that are deaf, or the other way round. */
void br_tangle_report_one_way(struct br_tangle *tangle);
/* NICs that are not planned but hear planned ones, though those are where they belong. */
void br_tangle_report_strangers(struct br_tangle *tangle);

#endif
