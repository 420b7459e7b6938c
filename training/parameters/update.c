/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/parameters/update.h"

void br_update_sgd(const struct br_update_sgd *sgd, float *restrict weight,
                   float *restrict velocity, const float *restrict gradient, float scale,
                   size_t count)
{
    struct br_update_sgd s = *sgd;

    for (size_t i = 0; i < count; i++) {
        float d = gradient[i] * scale + s.decay * weight[i];

        velocity[i] = s.momentum * velocity[i] + d;
        weight[i] = weight[i] - s.rate * velocity[i];
    }
}

void br_update_glu(const struct br_update_glu *glu, float *restrict weight,
                   const float *restrict gradient, const float *restrict pre_weight, size_t count)
{
    struct br_update_glu g = *glu;

    for (size_t i = 0; i < count; i++) {
        float grad_sync = (pre_weight[i] - weight[i]) * g.factor;

        weight[i] =
            weight[i] - g.rate * ((g.own * gradient[i] + g.decay * weight[i]) + g.sync * grad_sync);
    }
}
