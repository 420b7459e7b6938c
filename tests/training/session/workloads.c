/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/training/session/workloads.h"

#include <math.h>
#include <string.h>

static double draw(struct br_random *random, double least, double most)
{
    double share = (double)br_random_below(random, 1000001) / 1e6;

    return least * pow(most / least, share);
}

void work_draw(struct work *work, uint32_t n, struct br_random *random)
{
    memset(work, 0, sizeof *work);
    work->load = (struct br_workload){.layers = work->layers, .n = n, .bucket_bytes = 1 << 20};
    work->load.cost.b = draw(random, 1e-10, 1e-8);
    work->load.cost.a = br_random_below(random, 10) ? draw(random, 1e-5, 1e-2) : 0;
    work->load.slice_bytes = br_random_below(random, 3) ? BR_TRAINING_SLICE_BYTES : 0;
    for (uint32_t l = 0; l < n; l++) {
        struct br_layer *layer = &work->layers[l];

        layer->bytes = floor(draw(random, 4, 1e8));
        layer->backward = br_random_below(random, 10) ? draw(random, 1e-6, 1e-2) : 0;
        layer->forward = layer->backward / 2;
    }
}

void work_resnet50(struct work *work, uint32_t n)
{
    /* The last layers in forward order: parameters, multiply-adds of one sample. */
    static const double table[16][2] = {
        {512, 2508800},       {2048, 301056}, {1048576, 51380224},  {1024, 150528},
        {2359296, 115605504}, {1024, 150528}, {1048576, 51380224},  {4096, 602112},
        {1048576, 51380224},  {1024, 150528}, {2359296, 115605504}, {1024, 150528},
        {1048576, 51380224},  {4096, 602112}, {2048, 100352},       {2049000, 2048000}};

    memset(work, 0, sizeof *work);
    work->load = (struct br_workload){.layers = work->layers,
                                      .n = n,
                                      .cost = {5.23e-4, 8.571e-10},
                                      .slice_bytes = BR_TRAINING_SLICE_BYTES,
                                      .bucket_bytes = BR_TRAINING_BUCKET};
    for (uint32_t l = 0; l < n; l++) {
        work->layers[l].bytes = 4 * table[16 - n + l][0];
        work->layers[l].forward = 32 * table[16 - n + l][1] / 680e9;
        work->layers[l].backward = 2 * work->layers[l].forward;
    }
}

double work_end(const struct br_workload *load, const uint8_t *joins)
{
    double ready = 0, end = 0, bytes = 0;

    for (uint32_t l = load->n; l-- > 0;) {
        ready += load->layers[l].backward;
        bytes += load->layers[l].bytes;
        if (joins[l])
            continue;
        end = fmax(end, ready) + load->cost.a + load->cost.b * bytes;
        bytes = 0;
    }
    return end;
}

/* Layers below l, after groups that end at `end` and layers that wait with `bytes`. */
static double least(const struct br_workload *load, uint32_t l, double ready, double end,
                    double bytes)
{
    double alone;

    if (!l)
        return end;
    ready += load->layers[l - 1].backward;
    bytes += load->layers[l - 1].bytes;
    alone = least(load, l - 1, ready, fmax(end, ready) + load->cost.a + load->cost.b * bytes, 0);
    return l == 1 ? alone : fmin(alone, least(load, l - 1, ready, end, bytes));
}

double work_least_end(const struct br_workload *load)
{
    return least(load, load->n, 0, 0, 0);
}
