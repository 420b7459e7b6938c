/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Priority classes: which service level and traffic class the frames of a priority travel with.
 * Switches map both to their queues.
 *
 *   BRAID_TRAFFIC_CLASS=32,1:104,10:184     32 for all, but 104 from priority 1 on, and 184 from
 * priority 10 on
 *
 * A queue pair has one of each for its life, so a link has a queue pair a class; with one class,
 * the default, just one.
 */
#ifndef BR_TRANSPORT_VERBS_CLASSES_H
#define BR_TRANSPORT_VERBS_CLASSES_H

#include <stdint.h>

#define BR_VERBS_CLASSES 4

struct br_verbs_classes {
    unsigned n; /* at least 1 */
    struct br_verbs_class {
        int32_t from; /* the least priority; of the last one INT32_MIN */
        uint8_t service_level, traffic_class;
    } of[BR_VERBS_CLASSES]; /* the most urgent first: messages go with it */
};

/* From the values of BRAID_SERVICE_LEVEL and BRAID_TRAFFIC_CLASS, either may be NULL or empty: 0
 * for all. 0, or -EINVAL with a message. */
int br_verbs_classes_parse(const char *service_level, const char *traffic_class,
                           struct br_verbs_classes *out);

static inline unsigned br_verbs_class_of(const struct br_verbs_classes *classes, int32_t priority)
{
    unsigned i = 0;

    while (priority < classes->of[i].from)
        i++;
    return i;
}

#endif
