/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/update.h"

void br_update_sgd(const struct br_update_sgd *sgd, float *restrict weight, float *restrict velocity,
                   const float *restrict gradient, float scale, size_t count)
{
    struct br_update_sgd s = *sgd;

    for (size_t i = 0; i < count; i++) {
        float d = gradient[i] * scale + s.decay * weight[i];

        velocity[i] = s.momentum * velocity[i] + d;
        weight[i] = weight[i] - s.rate * velocity[i];
    }
}

void br_update_glu(const struct br_update_glu *glu, float *restrict weight, const float *restrict gradient,
                   const float *restrict global, size_t count)
{
    struct br_update_glu g = *glu;

    for (size_t i = 0; i < count; i++)
        weight[i] = weight[i] - g.rate * ((g.own * gradient[i] + g.decay * weight[i]) + g.sync * global[i]);
}

void br_update_pulled(float *restrict weight, float *restrict before, float *restrict global,
                      const float *restrict pulled, float factor, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        global[i] = (before[i] - pulled[i]) * factor;
        before[i] = pulled[i];
        weight[i] = pulled[i];
    }
}
