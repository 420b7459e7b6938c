/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small convolutional network: two convolutions, two dense layers (convolutions over all there
 * is), softmax. Plain loops, one thread, the same order of operations every time.
 *
 * Weights and gradients are the caller's: of each layer [out][in][kernel][kernel], then [out]
 * biases.
 */
#ifndef BR_TOOLS_TRAIN_NETWORK_H
#define BR_TOOLS_TRAIN_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/train/data.h"

#define BR_TRAIN_LAYERS 4
#define BR_TRAIN_BATCH  64 /* at most */

struct br_train_layer {
    int in, side;     /* channels and side of what comes in */
    int out, kernel;  /* channels and side of the filters */
    bool relu, halve; /* negative results become 0; then each 2 x 2 their mean */
    size_t count;     /* weights and biases */
    float *input;     /* [in][side][side][batch]: borrowed from the layer before */
    float *result;    /* [out][...][...][batch] before `halve` */
    float *output;    /* [out][...][...][batch] */
    float *slope;     /* of the loss by the output */
};

struct br_train_network {
    int batch;
    float *pixels; /* [1][side][side][batch] */
    struct br_train_layer layers[BR_TRAIN_LAYERS];
};

/* width: of the first dense layer. -ENOMEM with a message. */
int br_train_network_open(struct br_train_network *network, int batch, int width);
void br_train_network_close(struct br_train_network *network);

/* First weights of a layer: drawn, with a variance of 2 / inputs. */
void br_train_network_draw(const struct br_train_network *network, int layer, uint64_t seed,
                           float *weights);

/* Samples data[index[0..batch)]. */
void br_train_network_load(struct br_train_network *network, const struct br_train_data *data,
                           const int *index);

void br_train_network_forward(struct br_train_network *network, int layer, const float *weights);

/* Behind the last layer's forward pass: how many samples are right, and the mean loss; makes the
 * last slope. */
int br_train_network_judge(struct br_train_network *network, const struct br_train_data *data,
                           const int *index, double *loss);

/* The gradient, mean over the batch, and the slope of the layer before. */
void br_train_network_backward(struct br_train_network *network, int layer, const float *weights,
                               float *gradient);

#endif
