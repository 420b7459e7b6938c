/* SPDX-License-Identifier: BSD-3-Clause */
/* A back end whose one device is its own peer: a link that it connects ends at the device itself.
 * DATA frames are copied between bytes of the fake GPU, or of the host. */
#ifndef BR_TESTS_TRANSPORT_MIRROR_H
#define BR_TESTS_TRANSPORT_MIRROR_H

#include "transport/transport.h"

/* What a test sets, and sees. mirror_reset() before each case. */
struct mirror {
    int refuses;           /* region_register() fails with this errno */
    const char *no_dmabuf; /* what it sets */
    bool moves;            /* [true] frames are copied */
    size_t spoils;         /* this byte, from 1, of each copy */
    bool stranger;         /* somebody else connects, too, and says something */
    int takes_not;         /* post() refuses a DATA frame with this errno, and the link stays */
    uint32_t max_frame;    /* [1 MiB] of caps */
    int closes;            /* the link is closed with this errno instead of taking a DATA frame */

    struct br_device_config config; /* of the last device */
    int dmabuf;                     /* of the last region */
    struct br_link links[3];        /* the end that connected, the other one, the stranger's */
    int opened, links_open, registered;
};
extern struct mirror mirror;
extern const struct br_transport_ops mirror_ops;
void mirror_reset(void);

#endif
