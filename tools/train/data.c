/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/train/data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"

#define SIDE     BR_TRAIN_SIDE
#define PICTURES 20260101 /* seed of the pictures */
#define NOISE    1.2      /* of a pixel; the pictures' pixels are about 1 from each other */

typedef float picture[BR_TRAIN_PIXELS];

/* About normal: the sum of twelve uniform numbers, which needs no function that differs between
 * libraries. */
static double train_data_normal(struct br_random *random)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += br_random_unit(random);
    return sum;
}

static int train_data_wrapped(int i)
{
    return (i + SIDE) % SIDE;
}

/* Each pixel the mean of its neighbourhood. */
static void train_data_blur(picture p)
{
    picture from;

    memcpy(from, p, sizeof from);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            float sum = 0;

            for (int dy = -1; dy <= 1; dy++)
                for (int dx = -1; dx <= 1; dx++)
                    sum += from[train_data_wrapped(y + dy) * SIDE + train_data_wrapped(x + dx)];
            p[y * SIDE + x] = sum / 3; /* not 9: as large as before */
        }
}

static void draw_pictures(picture *pictures)
{
    struct br_random random;

    br_random_seed(&random, PICTURES);
    for (int c = 0; c < BR_TRAIN_CLASSES; c++) {
        for (int i = 0; i < BR_TRAIN_PIXELS; i++)
            pictures[c][i] = (float)train_data_normal(&random) / 2;
        train_data_blur(pictures[c]);
    }
}

static float train_data_moved(const picture p, int dy, int dx, int y, int x)
{
    return p[train_data_wrapped(y + dy) * SIDE + train_data_wrapped(x + dx)];
}

static int train_data_nearest(const picture *pictures, const picture sample)
{
    double least = -1;
    int best = 0;

    for (int c = 0; c < BR_TRAIN_CLASSES; c++)
        for (int shift = 0; shift < 9; shift++) {
            double distance = 0;

            for (int i = 0; i < BR_TRAIN_PIXELS; i++) {
                double d = sample[i] - train_data_moved(pictures[c], shift / 3 - 1, shift % 3 - 1,
                                                        i / SIDE, i % SIDE);

                distance += d * d;
            }
            if (least < 0 || distance < least) {
                least = distance;
                best = c;
            }
        }
    return best;
}

int br_train_data_make(struct br_train_data *data, int count, uint64_t seed)
{
    picture pictures[BR_TRAIN_CLASSES];
    struct br_random random;
    int right = 0;

    *data = (struct br_train_data){.count = count};
    data->pixels = calloc((size_t)count, sizeof *data->pixels);
    data->labels = calloc((size_t)count, sizeof *data->labels);
    if (!data->pixels || !data->labels) {
        br_train_data_free(data);
        return br_error(ENOMEM, "no memory for %d samples", count);
    }
    draw_pictures(pictures);
    br_random_seed(&random, seed);
    for (int s = 0; s < count; s++) {
        int label = (int)br_random_below(&random, BR_TRAIN_CLASSES);
        int dy = (int)br_random_below(&random, 3) - 1, dx = (int)br_random_below(&random, 3) - 1;

        for (int i = 0; i < BR_TRAIN_PIXELS; i++)
            data->pixels[s][i] = train_data_moved(pictures[label], dy, dx, i / SIDE, i % SIDE) +
                                 (float)(NOISE * train_data_normal(&random));
        data->labels[s] = (uint8_t)label;
        right += train_data_nearest((const picture *)pictures, data->pixels[s]) == label;
    }
    data->best = (double)right / count;
    return 0;
}

void br_train_data_free(struct br_train_data *data)
{
    free(data->pixels);
    free(data->labels);
    *data = (struct br_train_data){0};
}
