/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data-parallel training: every rank computes the gradients of its own samples, a gradient session
 * adds them up while the ranks go on computing, and all ranks move their weights alike.
 *
 *     cc -O2 train.c -o train $(pkg-config --cflags --libs braid) -lm
 *     braid run -n 4 -- ./train
 *
 * The network, three dense layers, learns whether a point of the square lies in the ring between
 * two circles.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <braid/training.h>

#define LAYERS     3
#define BATCH      32 /* samples of a rank in an iteration */
#define WIDTH      24
#define ITERATIONS 3000
#define RATE       0.3f

/* output = tanh(weight * input + bias); weight[in] of each output is its bias. */
struct layer {
    int in, out;
    float weight[WIDTH][WIDTH + 1];
    float input[BATCH][WIDTH + 1], output[BATCH][WIDTH];
    float slope[BATCH][WIDTH]; /* of the loss, by the output */
};

static struct layer layers[LAYERS] = {
    {.in = 2, .out = WIDTH}, {.in = WIDTH, .out = WIDTH}, {.in = WIDTH, .out = 1}};

static float draw(unsigned *seed) /* -1 to 1 */
{
    return 2 * (float)rand_r(seed) / (float)RAND_MAX - 1;
}

static float truth(float x, float y)
{
    float square = x * x + y * y;

    return square > 0.2f && square < 0.7f ? 1 : -1;
}

static void forward(struct layer *l, const float input[BATCH][WIDTH])
{
    for (int b = 0; b < BATCH; b++) {
        memcpy(l->input[b], input[b], (size_t)l->in * sizeof(float));
        l->input[b][l->in] = 1;
        for (int o = 0; o < l->out; o++) {
            float sum = 0;

            for (int i = 0; i <= l->in; i++)
                sum += l->weight[o][i] * l->input[b][i];
            l->output[b][o] = tanhf(sum);
        }
    }
}

/* gradient: [out][in + 1], the mean over the batch. before: of the layer before, gets its slope;
 * NULL: there is none. */
static void backward(struct layer *l, struct layer *before, float *gradient)
{
    memset(gradient, 0, (size_t)(l->out * (l->in + 1)) * sizeof *gradient);
    if (before)
        memset(before->slope, 0, sizeof before->slope);
    for (int b = 0; b < BATCH; b++)
        for (int o = 0; o < l->out; o++) {
            float slope = l->slope[b][o] * (1 - l->output[b][o] * l->output[b][o]);

            for (int i = 0; i <= l->in; i++)
                gradient[o * (l->in + 1) + i] += slope * l->input[b][i] / BATCH;
            for (int i = 0; i < l->in && before; i++)
                before->slope[b][i] += slope * l->weight[o][i];
        }
}

/* sum: the gradient, over all ranks. */
static void update(struct layer *l, const float *sum, int ranks)
{
    for (int o = 0; o < l->out; o++)
        for (int i = 0; i <= l->in; i++)
            l->weight[o][i] -= RATE * sum[o * (l->in + 1) + i] / (float)ranks;
}

/* An iteration. right: samples of this rank that the network, as it was, got right. */
static int iterate(struct braid_session *session, int ranks, unsigned *seed, int *right)
{
    float points[BATCH][WIDTH] = {0};
    struct layer *last = &layers[LAYERS - 1];

    for (int b = 0; b < BATCH; b++)
        points[b][0] = draw(seed), points[b][1] = draw(seed);
    for (int l = 0; l < LAYERS; l++) {
        /* The sum of the iteration before must be here now, and not earlier: until then it travels.
         * The first time it is 0. */
        if (braid_gradient_wait(session, l))
            return -1;
        update(&layers[l], braid_gradient(session, l), ranks);
        forward(&layers[l],
                l ? (const float(*)[WIDTH])layers[l - 1].output : (const float(*)[WIDTH])points);
    }
    if (braid_session_step(session)) /* ends the iteration before; now and then it plans anew */
        return -1;
    *right = 0;
    for (int b = 0; b < BATCH; b++) {
        float wanted = truth(points[b][0], points[b][1]);

        *right += last->output[b][0] * wanted > 0;
        last->slope[b][0] = last->output[b][0] - wanted;
    }
    for (int l = LAYERS - 1; l >= 0; l--) {
        backward(&layers[l], l ? &layers[l - 1] : NULL, braid_gradient(session, l));
        if (braid_gradient_ready(session, l)) /* returns at once */
            return -1;
    }
    return 0;
}

int main(void)
{
    struct braid_comm *comm;
    struct braid_session *session;
    struct braid_layer sizes[LAYERS] = {0};
    struct braid_session_report report = {0};
    unsigned seed = 1;   /* the first weights are the same on all ranks */
    int right, late = 0; /* late: right in the last 100 iterations */

    if (braid_init(NULL, &comm)) {
        fprintf(stderr, "braid_init: %s\n", braid_last_error());
        return 1;
    }
    for (int l = 0; l < LAYERS; l++) {
        sizes[l].count = (size_t)(layers[l].out * (layers[l].in + 1));
        for (int o = 0; o < layers[l].out; o++)
            for (int i = 0; i < layers[l].in; i++)
                layers[l].weight[o][i] = draw(&seed) * sqrtf(3 / (float)layers[l].in);
    }
    int rc = braid_session_create(comm, sizes, LAYERS, NULL, &session);
    seed = (unsigned)braid_rank(comm) + 2; /* the samples are not */
    for (int i = 0; i < ITERATIONS && !rc; i++) {
        rc = iterate(session, braid_size(comm), &seed, &right);
        late += i >= ITERATIONS - 100 ? right : 0;
    }
    rc = rc ? rc : braid_session_report(session, &report);
    if (rc) {
        fprintf(stderr, "rank %d: %s\n", braid_rank(comm), braid_last_error());
        /* The other ranks' calls end with an error that names this one. */
        braid_comm_abort(comm, "training failed");
        braid_finalize(comm);
        return 1;
    }
    if (braid_rank(comm) == 0)
        printf("%d ranks: %.1f %% right; %d all-reduces an iteration, %.3f ms each, %.3f ms of it "
               "waiting\n",
               braid_size(comm), late / (double)BATCH, report.groups, report.iteration * 1e3,
               report.exposed * 1e3);
    rc = braid_session_free(session);
    return braid_finalize(comm) || rc || late < 90 * BATCH;
}
