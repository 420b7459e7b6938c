/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of parameter servers and of workers between two pulls, on arrays of float32. Each
 * result is that of the formula in exactly the order of float32 operations that stands there,
 * rounded after each: never fused, whatever the processor (cmake/flags.cmake).
 *
 * Arrays must not overlap. No pointer needs alignment. Any thread.
 */
#ifndef BR_TRAINING_PARAMETERS_UPDATE_H
#define BR_TRAINING_PARAMETERS_UPDATE_H

#include <stddef.h>

/* Momentum SGD with weight decay. */
struct br_update_sgd {
    float rate, momentum, decay;
};

/* GLU (global gradient for local update), Algorithm 2 of the SSD-SGD paper. */
struct br_update_glu {
    float rate;      /* the local one, loc_lr */
    float own, sync; /* a and b of the paper: shares of the two gradients */
    float decay;
    float factor; /* (1 - momentum) / (the servers' rate * k) */
};

/*
 * d = gradient * scale + decay * weight;  velocity = momentum * velocity + d;  weight = weight -
 * rate * velocity
 *
 * scale: 1 / (number of gradients that were summed).
 */
void br_update_sgd(const struct br_update_sgd *sgd, float *weight, float *velocity,
                   const float *gradient, float scale, size_t count);

/*
 * grad_sync = (pre_weight - weight) * factor;  weight = weight - rate * ((own * gradient + decay *
 * weight) + sync * grad_sync)
 *
 * pre_weight: the servers' weights k iterations before those that `weight` began with when they
 * were pulled. Right after a pull grad_sync is about the mean gradient of all workers in these k
 * iterations.
 */
void br_update_glu(const struct br_update_glu *glu, float *weight, const float *gradient,
                   const float *pre_weight, size_t count);

#endif
