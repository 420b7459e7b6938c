/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SSD-SGD against its paper: real ranks write down their own weights after every iteration, and
 * ssd_model.py computes the same training in float64 from the listings of the paper.
 * test_parameters.c and test_update.c compare the bits, but with C written beside the code they
 * test. Exit status 77, skipped, without Python's numpy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <braid/parameters.h>

#include "tests/system/ranks.h"

#define LAYERS     2
#define ALL        (700 + 333)
#define WARMUP     4
#define DROP_AT    17
#define ITERATIONS 27
#define MOST_STEPS 5

static const size_t counts[LAYERS] = {700, 333};
static const char *const pythons[] = {
    "python3", "/usr/bin/python3"}; /* the second one is Debian's, which has Debian's numpy */
static const char *python;
static char folder[] = "/tmp/braid_ssd_XXXXXX";

static int iterate(struct braid_comm *comm, struct braid_parameters *p, int t, FILE *file)
{
    size_t i = ALL;

    for (int l = 0; l < LAYERS; l++)
        RETURNS(0, braid_parameters_wait(p, l));
    for (int l = LAYERS - 1; l >= 0; l--) {
        const float *weight = braid_parameters_weight(p, l);
        float *gradient = braid_parameters_gradient(p, l);

        CHECK(gradient, "no gradient");
        i -= counts[l];
        for (size_t j = 0; j < counts[l]; j++) {
            size_t n = (i + j) * 7 + (size_t)braid_rank(comm) * 13 + (size_t)t * 29;

            gradient[j] = 0.3f * weight[j] - 1.0f / (float)(3 + n % 101);
        }
        RETURNS(0, braid_parameters_push(p, l));
    }
    for (int l = 0; l < LAYERS; l++) {
        RETURNS(0, braid_parameters_wait(p, l));
        CHECK(fwrite(braid_parameters_weight(p, l), sizeof(float), counts[l], file) == counts[l],
              "layer %d cannot be written", l);
    }
    return 0;
}

static int train(struct braid_comm *comm, int steps, const char *local)
{
    struct braid_parameters_options o = {.method = "ssd",
                                         .local = local,
                                         .steps = steps,
                                         .warmup = WARMUP,
                                         .rate = 0.01f,
                                         .momentum = 0.9f,
                                         .decay = 1e-3f,
                                         .drops = {DROP_AT},
                                         .drop = 0.5f,
                                         .slice_bytes = 1000};
    struct braid_parameter_layer layers[LAYERS];
    struct braid_parameters *p;
    float first[ALL];
    char name[128];
    FILE *file;

    for (size_t i = 0; i < ALL; i++)
        first[i] = 1.0f / (float)(i % 97 + 2);
    for (int l = 0; l < LAYERS; l++)
        layers[l] = (struct braid_parameter_layer){counts[l], first + (l ? counts[0] : 0)};
    snprintf(name, sizeof name, "%s/%d_%d_%s_%d", folder, braid_size(comm), steps, local,
             braid_rank(comm));
    file = fopen(name, "w");
    CHECK(file, "%s cannot be written", name);
    RETURNS(0, braid_parameters_create(comm, layers, LAYERS, &o, &p));
    for (int t = 0; t < ITERATIONS; t++)
        if (iterate(comm, p, t, file))
            return 1;
    CHECK(!fclose(file), "%s cannot be written", name);
    RETURNS(0, braid_parameters_free(p));
    return 0;
}

static int train_all(struct braid_comm *comm, void *context)
{
    (void)context;
    for (int steps = 1; steps <= MOST_STEPS; steps++)
        if (train(comm, steps, "glu"))
            return 1;
    return train(comm, 2, "sgd");
}

static void ssd__weights_of_the_paper(void **state)
{
    const char *source = getenv("BRAID_SOURCE");
    char command[512];

    (void)state;
    for (int size = 2; size <= 3; size++) {
        struct ranks job = {.size = size, .backend = "shm", .timeout_ms = RANKS_PATIENCE};

        ranks_run(&job, train_all, NULL);
    }
    snprintf(command, sizeof command, "%s '%s/tests/system/ssd_model.py' %s %d %d %d %d", python,
             source ? source : ".", folder, ALL, ITERATIONS, WARMUP, DROP_AT);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ssd__weights_of_the_paper)};
    char command[64];
    int rc;

    for (size_t i = 0; i < sizeof pythons / sizeof *pythons && !python; i++) {
        snprintf(command, sizeof command, "%s -c 'import numpy' 2> /dev/null", pythons[i]);
        python = system(command) ? NULL : pythons[i];
    }
    if (!python) {
        puts("Python's numpy is not installed");
        return 77;
    }
    if (!mkdtemp(folder))
        return 1;
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command) || rc;
}
