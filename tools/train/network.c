/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/train/network.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"

/* ---- shapes ---------------------------------------------------------------------------------- */

static int result_side(const struct br_train_layer *l)
{
    return l->side - l->kernel + 1;
}

static int output_side(const struct br_train_layer *l)
{
    return l->halve ? result_side(l) / 2 : result_side(l);
}

static size_t train_network_square(int side)
{
    return (size_t)side * (size_t)side;
}

/* Where the values of a batch begin: channel c, row y, column x of pictures with this side. */
static size_t train_network_at(int batch, int side, int c, int y, int x)
{
    return (((size_t)c * (size_t)side + (size_t)y) * (size_t)side + (size_t)x) * (size_t)batch;
}

int br_train_network_open(struct br_train_network *n, int batch, int width)
{
    static const struct br_train_layer shapes[BR_TRAIN_LAYERS] = {
        {.kernel = 3, .out = 8, .relu = true, .halve = true},
        {.kernel = 3, .out = 16, .relu = true},
        {.kernel = 3, .relu = true},
        {.kernel = 1, .out = BR_TRAIN_CLASSES},
    };
    int in = 1, side = BR_TRAIN_SIDE;
    bool fine;

    *n = (struct br_train_network){.batch = batch};
    n->pixels = calloc((size_t)BR_TRAIN_PIXELS * (size_t)batch, sizeof(float));
    fine = n->pixels != NULL;
    for (int i = 0; i < BR_TRAIN_LAYERS; i++) {
        struct br_train_layer *l = &n->layers[i];
        size_t results, outputs;

        *l = shapes[i];
        l->in = in;
        l->side = side;
        l->out = l->out ? l->out : width;
        l->count = (size_t)l->out * ((size_t)in * train_network_square(l->kernel) + 1);
        results = (size_t)l->out * train_network_square(result_side(l)) * (size_t)batch;
        outputs = (size_t)l->out * train_network_square(output_side(l)) * (size_t)batch;
        l->input = i ? n->layers[i - 1].output : n->pixels;
        l->result = calloc(results, sizeof(float));
        l->output = calloc(outputs, sizeof(float));
        l->slope = calloc(outputs, sizeof(float));
        fine = fine && l->result && l->output && l->slope;
        in = l->out;
        side = output_side(l);
    }
    if (!fine) {
        br_train_network_close(n);
        return br_error(ENOMEM, "no memory for the network");
    }
    return 0;
}

void br_train_network_close(struct br_train_network *n)
{
    for (int i = 0; i < BR_TRAIN_LAYERS; i++) {
        free(n->layers[i].result);
        free(n->layers[i].output);
        free(n->layers[i].slope);
    }
    free(n->pixels);
    memset(n, 0, sizeof *n);
}

void br_train_network_draw(const struct br_train_network *n, int layer, uint64_t seed,
                           float *weights)
{
    const struct br_train_layer *l = &n->layers[layer];
    size_t inputs = (size_t)l->in * train_network_square(l->kernel);
    double spread = sqrt(6.0 / (double)inputs);
    struct br_random random;

    br_random_seed(&random, seed * BR_TRAIN_LAYERS + (uint64_t)layer);
    for (size_t i = 0; i < l->count; i++) {
        double drawn = (2 * br_random_unit(&random) - 1) * spread;

        weights[i] = i < inputs * (size_t)l->out ? (float)drawn : 0;
    }
}

void br_train_network_load(struct br_train_network *n, const struct br_train_data *data,
                           const int *index)
{
    for (int b = 0; b < n->batch; b++)
        for (int i = 0; i < BR_TRAIN_PIXELS; i++)
            n->pixels[i * n->batch + b] = data->pixels[index[b]][i];
}

/* ---- passes ---------------------------------------------------------------------------------- */

static void train_network_convolve(const struct br_train_layer *l, int batch, const float *weights,
                                   int o, int y, int x)
{
    float *to = l->result + train_network_at(batch, result_side(l), o, y, x);
    const float *w = weights + (size_t)o * (size_t)l->in * train_network_square(l->kernel);
    float bias =
        weights[(size_t)l->out * (size_t)l->in * train_network_square(l->kernel) + (size_t)o];

    for (int b = 0; b < batch; b++)
        to[b] = bias;
    for (int i = 0; i < l->in; i++)
        for (int ky = 0; ky < l->kernel; ky++)
            for (int kx = 0; kx < l->kernel; kx++, w++) {
                const float *from = l->input + train_network_at(batch, l->side, i, y + ky, x + kx);

                for (int b = 0; b < batch; b++)
                    to[b] += *w * from[b];
            }
    for (int b = 0; b < batch && l->relu; b++)
        to[b] = to[b] > 0 ? to[b] : 0;
}

void br_train_network_forward(struct br_train_network *n, int layer, const float *weights)
{
    struct br_train_layer *l = &n->layers[layer];
    int batch = n->batch, step = l->halve ? 2 : 1;

    for (int o = 0; o < l->out; o++)
        for (int y = 0; y < result_side(l); y++)
            for (int x = 0; x < result_side(l); x++)
                train_network_convolve(l, batch, weights, o, y, x);
    for (int o = 0; o < l->out; o++)
        for (int y = 0; y < output_side(l); y++)
            for (int x = 0; x < output_side(l); x++) {
                float *to = l->output + train_network_at(batch, output_side(l), o, y, x);

                memset(to, 0, (size_t)batch * sizeof *to);
                for (int k = 0; k < step * step; k++) {
                    const float *from =
                        l->result + train_network_at(batch, result_side(l), o, y * step + k / step,
                                                     x * step + k % step);

                    for (int b = 0; b < batch; b++)
                        to[b] += from[b] / (float)(step * step);
                }
            }
}

int br_train_network_judge(struct br_train_network *n, const struct br_train_data *data,
                           const int *index, double *loss)
{
    struct br_train_layer *l = &n->layers[BR_TRAIN_LAYERS - 1];
    int right = 0;

    *loss = 0;
    for (int b = 0; b < n->batch; b++) {
        int label = data->labels[index[b]], best = 0;
        double sum = 0;

        for (int c = 1; c < l->out; c++)
            best = l->output[c * n->batch + b] > l->output[best * n->batch + b] ? c : best;
        for (int c = 0; c < l->out; c++)
            sum += exp(l->output[c * n->batch + b] - l->output[best * n->batch + b]);
        for (int c = 0; c < l->out; c++) {
            double share = exp(l->output[c * n->batch + b] - l->output[best * n->batch + b]) / sum;

            l->slope[c * n->batch + b] = (float)((share - (c == label)) / n->batch);
            *loss -= c == label ? log(share) / n->batch : 0;
        }
        right += best == label;
    }
    return right;
}

/* What one filter at one place does to its gradient and to the slope of what came in; NULL: nobody
 * wants that. */
static void train_network_spread(const struct br_train_layer *l, int batch, const float *slope,
                                 const float *w, float *g, int y, int x, float *back)
{
    for (int i = 0; i < l->in; i++)
        for (int ky = 0; ky < l->kernel; ky++)
            for (int kx = 0; kx < l->kernel; kx++, w++, g++) {
                size_t place = train_network_at(batch, l->side, i, y + ky, x + kx);
                const float *from = l->input + place;
                float sum = 0;

                for (int b = 0; b < batch; b++)
                    sum += slope[b] * from[b];
                *g += sum;
                for (int b = 0; b < batch && back; b++)
                    back[place + (size_t)b] += *w * slope[b];
            }
}

void br_train_network_backward(struct br_train_network *n, int layer, const float *weights,
                               float *gradient)
{
    struct br_train_layer *l = &n->layers[layer];
    int batch = n->batch, step = l->halve ? 2 : 1, side = output_side(l);
    size_t filter = (size_t)l->in * train_network_square(l->kernel);
    float *back = layer ? n->layers[layer - 1].slope : NULL;

    memset(gradient, 0, l->count * sizeof *gradient);
    if (back)
        memset(back, 0,
               filter / train_network_square(l->kernel) * train_network_square(l->side) *
                   (size_t)batch * sizeof *back);
    for (int o = 0; o < l->out; o++)
        for (int y = 0; y < side * step; y++)
            for (int x = 0; x < side * step; x++) {
                const float *result = l->result + train_network_at(batch, result_side(l), o, y, x);
                const float *out = l->slope + train_network_at(batch, side, o, y / step, x / step);
                float slope[BR_TRAIN_BATCH];

                for (int b = 0; b < batch; b++) {
                    slope[b] = l->relu && !(result[b] > 0) ? 0 : out[b] / (float)(step * step);
                    gradient[filter * (size_t)l->out + (size_t)o] += slope[b];
                }
                train_network_spread(l, batch, slope, weights + (size_t)o * filter,
                                     gradient + (size_t)o * filter, y, x, back);
            }
}
