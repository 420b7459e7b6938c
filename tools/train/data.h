/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A generated data set with a known answer. Each of ten classes is a smooth picture; a sample is
 * its class's picture, moved by up to one pixel in each direction, with noise on top. The best that
 * any classifier can do is known: it takes the class and shift whose picture is nearest to the
 * sample.
 */
#ifndef BR_TOOLS_TRAIN_DATA_H
#define BR_TOOLS_TRAIN_DATA_H

#include <stdint.h>

#define BR_TRAIN_SIDE    12
#define BR_TRAIN_PIXELS  (BR_TRAIN_SIDE * BR_TRAIN_SIDE)
#define BR_TRAIN_CLASSES 10

struct br_train_data {
    int count;
    float (*pixels)[BR_TRAIN_PIXELS];
    uint8_t *labels;
    double best; /* share that the best classifier gets right */
};

/* The same pictures for every seed; the samples are drawn from it. -ENOMEM with a message. */
int br_train_data_make(struct br_train_data *data, int count, uint64_t seed);
void br_train_data_free(struct br_train_data *data);

#endif
