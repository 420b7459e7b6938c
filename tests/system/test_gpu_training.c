/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradient sessions and parameter servers of real processes with memory of a fake GPU: results, and
 * the path that the bytes took. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <braid/parameters.h>
#include <braid/training.h>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

#define LAYERS 6

static int train(struct braid_comm *comm, void *context)
{
    const char *policy = context;
    struct braid_session_options options = {
        .type = BRAID_FLOAT32, .reduction = BRAID_AVG, .policy = policy, .warmup = 2};
    struct braid_layer layers[LAYERS] = {0};
    struct braid_session *session;
    struct braid_stats stats = {0};
    uint64_t bytes = 0; /* each gradient once an iteration, merged or not */

    for (int l = 0; l < LAYERS; l++) {
        layers[l].count = (size_t)(1000 + 7000 * l);
        layers[l].gradient = own_gpu_alloc(layers[l].count * sizeof(float));
    }
    RETURNS(0, braid_session_create(comm, layers, LAYERS, &options, &session));
    for (int turn = 0; turn < 5; turn++) {
        for (int l = LAYERS - 1; l >= 0; l--) {
            for (size_t i = 0; i < layers[l].count; i++)
                ((float *)own_gpu_view(layers[l].gradient))[i] =
                    (float)(turn + l + 2 * braid_rank(comm));
            RETURNS(0, braid_gradient_ready(session, l));
            bytes += layers[l].count * sizeof(float);
        }
        for (int l = 0; l < LAYERS; l++) {
            RETURNS(0, braid_gradient_wait(session, l));
            for (size_t i = 0; i < layers[l].count; i++)
                CHECK(((float *)own_gpu_view(layers[l].gradient))[i] == (float)(turn + l + 2),
                      "%s: layer %d element %zu", policy, l, i);
        }
        RETURNS(0, braid_session_step(session));
    }
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(stats.gpu_to_host_bytes == bytes && stats.host_to_gpu_bytes == bytes,
          "%s: %llu and %llu bytes were copied, not %llu", policy,
          (unsigned long long)stats.gpu_to_host_bytes, (unsigned long long)stats.host_to_gpu_bytes,
          (unsigned long long)bytes);
    RETURNS(0, braid_session_free(session));
    for (int l = 0; l < LAYERS; l++)
        own_gpu_free(layers[l].gradient);
    return 0;
}

static void gpu__gradient_sessions(void **state)
{
    static const char *const policies[] = {"layerwise", "single", "bucket", "mgwfbp",
                                           "optimal",   "p3",     "auto"};

    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        ranks_run(&(struct ranks){.size = 3,
                                  .backend = i % 2 ? "shm" : "tcp",
                                  .devices = i % 2 ? NULL : "127.0.0.1"},
                  train, (void *)(uintptr_t)policies[i]);
}

/* Rank 0 has no gradient of layer 1: zeros of its own, in memory of the GPU, or in the buffer in
 * which merged layers travel. */
static int leave_out(struct braid_comm *comm, void *context)
{
    struct braid_session_options options = {.policy = context};
    struct braid_layer layers[2] = {{.count = 40000}, {.count = 50001}};
    struct braid_session *session;

    for (int l = 0; l < 2; l++)
        layers[l].gradient = own_gpu_alloc(layers[l].count * sizeof(float));
    RETURNS(0, braid_session_create(comm, layers, 2, &options, &session));
    for (int l = 0; l < 2; l++) {
        for (size_t i = 0; i < layers[l].count; i++)
            ((float *)own_gpu_view(layers[l].gradient))[i] = (float)(3 + braid_rank(comm));
        if (!l || braid_rank(comm))
            RETURNS(0, braid_gradient_ready(session, l));
        else
            RETURNS(0, braid_gradient_unused(session, BRAID_GRADIENT_REST));
    }
    RETURNS(0, braid_session_step(session));
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < layers[l].count; i++)
            CHECK(((float *)own_gpu_view(layers[l].gradient))[i] == (float)(l ? 4 : 7),
                  "layer %d element %zu", l, i);
    RETURNS(0, braid_session_free(session));
    for (int l = 0; l < 2; l++)
        own_gpu_free(layers[l].gradient);
    return 0;
}

static void gpu__unused_layers_are_zeros(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 2, .backend = "shm"}, leave_out,
              (void *)(uintptr_t) "layerwise");
    ranks_run(&(struct ranks){.size = 2, .backend = "shm"}, leave_out,
              (void *)(uintptr_t) "single");
}

/* Weights and gradients of parameter servers lie in braid's own host memory; the first weights may
 * come from a GPU. */
static int serve(struct braid_comm *comm, void *context)
{
    const size_t count = 5000;
    float *initial = own_gpu_alloc(count * sizeof *initial);
    struct braid_parameter_layer layer = {.count = count, .initial = initial};
    struct braid_parameters *parameters;
    struct braid_stats stats = {0};

    (void)context;
    for (size_t i = 0; i < count; i++)
        ((float *)own_gpu_view(initial))[i] = (float)(i % 97);
    RETURNS(0, braid_parameters_create(comm, &layer, 1,
                                       &(struct braid_parameters_options){.rate = 1}, &parameters));
    own_gpu_free(initial);
    for (int turn = 0; turn < 3; turn++) {
        RETURNS(0, braid_parameters_wait(parameters, 0));
        for (size_t i = 0; i < count; i++) {
            CHECK(braid_parameters_weight(parameters, 0)[i] == (float)(i % 97) - (float)turn,
                  "turn %d, weight %zu", turn, i);
            braid_parameters_gradient(parameters, 0)[i] = (float)(2 * braid_rank(comm));
        }
        RETURNS(0, braid_parameters_push(parameters, 0));
    }
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(stats.gpu_to_host_bytes == (braid_rank(comm) == 0) * count * sizeof(float) &&
              !stats.host_to_gpu_bytes,
          "%llu and %llu bytes were copied", (unsigned long long)stats.gpu_to_host_bytes,
          (unsigned long long)stats.host_to_gpu_bytes);
    return braid_parameters_free(parameters);
}

static void gpu__parameter_servers(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 2, .backend = "shm"}, serve, NULL);
}

/* Rank 0 cannot read the first weights: the others learn it at once. */
static int no_weights(struct braid_comm *comm, void *context)
{
    struct braid_parameter_layer layer = {.count = 100, .initial = own_gpu_alloc(400)};
    struct braid_parameters_options options = {.rate = 1};
    struct braid_parameters *parameters;

    (void)context;
    strcpy(fake_cuda()->fail, "cuMemcpyAsync");
    fake_cuda()->fail_result = BR_CUDA_ILLEGAL_ADDRESS;
    SAYS(braid_rank(comm) ? -EPROTO : -EIO,
         braid_rank(comm) ? "another rank" : "initial|GPU 0|400 bytes|host",
         braid_parameters_create(comm, &layer, 1, &options, &parameters));
    fake_cuda()->fail[0] = 0;
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    own_gpu_free((void *)(uintptr_t)layer.initial);
    return 0;
}

static void gpu__weights_that_cannot_be_read(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 2, .backend = "tcp", .devices = "127.0.0.1"}, no_weights,
              NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpu__gradient_sessions),
        cmocka_unit_test(gpu__unused_layers_are_zeros),
        cmocka_unit_test(gpu__parameter_servers),
        cmocka_unit_test(gpu__weights_that_cannot_be_read),
    };

    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
