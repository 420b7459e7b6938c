/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Priority classes: which service level and traffic class the frames of a priority travel with.
 * Switches map both to their queues.
 *
 *     BRAID_TRAFFIC_CLASS=32,1:104,10:184
 *
 * means 32 for all frames, but 104 from priority 1 on, and 184 from priority 10 on. A queue pair
 * keeps its service level and traffic class, so a link has a queue pair for each class; by default
 * there is one class.
 *
 * The functions may be called from any thread and do not block.
 */
#ifndef BR_TRANSPORT_VERBS_CLASSES_H
#define BR_TRANSPORT_VERBS_CLASSES_H

#include <stdint.h>

#define BR_VERBS_CLASSES 4 /* The most classes. */

struct br_verbs_classes {
    unsigned n; /* The number of classes, at least 1. */
    struct br_verbs_class {
        int32_t from; /* The least priority of this class; INT32_MIN for the last one. */
        uint8_t service_level, traffic_class;
    } of[BR_VERBS_CLASSES]; /* The most urgent class first; messages belong to it. */
};

/* Reads the values of BRAID_SERVICE_LEVEL and BRAID_TRAFFIC_CLASS into *out. A value that is NULL
 * or empty means 0 for all frames. Returns 0, or -EINVAL with a message. */
int br_verbs_classes_parse(const char *service_level, const char *traffic_class,
                           struct br_verbs_classes *out);

/* Returns the index in classes->of of the class that a priority belongs to. */
static inline unsigned br_verbs_class_of(const struct br_verbs_classes *classes, int32_t priority)
{
    unsigned i = 0;

    while (priority < classes->of[i].from)
        i++;
    return i;
}

#endif
