/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/common/host.h"
#include "tools/common/interrupt.h"

#define LOOK 50 /* ms between two looks for Ctrl-C */

static size_t largest_bytes(const struct br_perf_settings *s)
{
    return (size_t)(s->all ? BR_PERF_ALL_MAX : s->size);
}

static int get_memory(struct br_pair *pair)
{
    size_t bytes = largest_bytes(pair->settings);
    uint64_t available = br_host_memory_available();
    int gpu = (int)pair->settings->gpu, rc;

    if (available && 2 * bytes > available / 2)
        return br_error(ENOMEM,
                        "2 buffers of %zu MiB are needed, but only %llu MiB are free: lower -s",
                        bytes >> 20, (unsigned long long)(available >> 20));
    rc = br_buffer_get(&pair->out, pair->comm, bytes, gpu);
    return rc ? rc : br_buffer_get(&pair->in, pair->comm, bytes, gpu);
}

static int swap_keys(struct br_pair *pair)
{
    enum br_perf_verb verb = pair->settings->test->verb;
    const struct br_buffer *offered =
        verb == BR_PERF_READ || verb == BR_PERF_ATOMIC ? &pair->out : &pair->in;
    struct braid_region *region; /* the communicator's to the end */
    struct braid_key mine;
    struct braid_op *op = NULL;
    int rc = 0;

    if (offered->gpu >= 0)
        rc = braid_register(pair->comm, offered->memory, largest_bytes(pair->settings), &region);
    if (!rc)
        rc = braid_key(pair->comm, offered->memory, &mine);
    if (!rc)
        rc = braid_recv(pair->comm, &pair->key, sizeof pair->key, pair->other,
                        &pair->options[BR_PAIR_KEY], &op);
    if (!rc)
        rc = braid_send(pair->comm, &mine, sizeof mine, pair->other, &pair->options[BR_PAIR_KEY],
                        NULL);
    return rc ? rc : br_pair_wait(pair, &op, -1);
}

int br_pair_open(struct br_pair *pair, const struct br_perf_settings *s,
                 const struct br_exchange *where)
{
    struct braid_config config = br_exchange_config(s, where);
    int rc;

    *pair = (struct br_pair){.settings = s,
                             .client = s->server != NULL,
                             .other = s->server ? 0 : 1,
                             .out.gpu = -1,
                             .in.gpu = -1};
    for (uint32_t tag = 0; tag <= BR_PAIR_KEY; tag++)
        pair->options[tag] = (struct braid_options){.tag = tag, .timeout_ms = INT32_MAX};
    pair->options[BR_PAIR_DATA].priority = (int32_t)s->priority;
    rc = braid_init(&config, &pair->comm);
    if (rc)
        return rc;
    rc = get_memory(pair);
    if (!rc && s->test->verb != BR_PERF_SEND)
        rc = swap_keys(pair);
    if (rc) {
        char text[BR_ERROR_BYTES];

        snprintf(text, sizeof text, "%s", br_error_message());
        br_pair_close(pair, true);
        br_error(-rc, "%s", text);
    }
    return rc;
}

int br_pair_close(struct br_pair *pair, bool abort)
{
    int rc;

    if (abort)
        braid_comm_abort(pair->comm, br_interrupted() ? "the other side was interrupted (Ctrl-C)"
                                                      : "the other side failed");
    rc = braid_finalize(pair->comm);
    br_buffer_put(&pair->out);
    br_buffer_put(&pair->in);
    return rc;
}

/* What a side sends with --data_validation: other bytes for each size and side. */
static uint8_t pair_content(int rank, size_t bytes, size_t at)
{
    return (uint8_t)(at * 167 + (at >> 8) * 13 + bytes + (size_t)rank * 7 + 1);
}

int br_pair_validate(const struct br_pair *pair, size_t bytes)
{
    size_t wrong = 0, first = 0;
    int rc = br_buffer_from_gpu(&pair->in, bytes);

    if (rc)
        return rc;
    for (size_t i = bytes; i-- > 0;)
        if (pair->in.host[i] != pair_content(pair->other, bytes, i)) {
            wrong++;
            first = i;
        }
    return wrong
               ? br_error(EIO,
                          "--data_validation: %zu of %zu bytes are wrong, the first at offset %zu",
                          wrong, bytes, first)
               : 0;
}

int br_pair_begin(struct br_pair *pair, size_t bytes)
{
    int rc;

    memset(pair->in.host, 0, bytes);
    for (size_t i = 0; i < bytes && pair->settings->validates; i++)
        pair->out.host[i] = pair_content(1 - pair->other, bytes, i);
    rc = br_buffer_to_gpu(&pair->in, bytes);
    if (!rc)
        rc = br_buffer_to_gpu(&pair->out, bytes);
    if (rc)
        return rc;
    rc = braid_recv(pair->comm, &pair->peer_stop, sizeof pair->peer_stop, pair->other,
                    &pair->options[BR_PAIR_STOP], &pair->stop);
    return rc ? rc : braid_barrier(pair->comm, NULL, NULL);
}

int br_pair_post(struct br_pair *pair, size_t bytes, struct braid_op **op)
{
    const struct braid_options *options = &pair->options[BR_PAIR_DATA];

    switch (pair->settings->test->verb) {
    case BR_PERF_WRITE:
        return braid_put(pair->comm, pair->out.memory, bytes, &pair->key, 0, options, op);
    case BR_PERF_READ:
        return braid_get(pair->comm, pair->in.memory, bytes, &pair->key, 0, options, op);
    case BR_PERF_ATOMIC:
        return pair->settings->swaps
                   ? braid_compare_swap(pair->comm, (uint64_t *)(void *)pair->in.memory, 0, 0,
                                        &pair->key, 0, options, op)
                   : braid_fetch_add(pair->comm, (uint64_t *)(void *)pair->in.memory, 1, &pair->key,
                                     0, options, op);
    default:
        return braid_send(pair->comm, pair->out.memory, bytes, pair->other, options, op);
    }
}

int br_pair_receive(struct br_pair *pair, size_t bytes, struct braid_op **op)
{
    return braid_recv(pair->comm, pair->in.memory, bytes, pair->other, &pair->options[BR_PAIR_DATA],
                      op);
}

/* The server alone: a client ends in good order by itself. */
static int check_interrupt(const struct br_pair *pair)
{
    return br_interrupted() && !pair->client ? br_error(EINTR, "interrupted") : 0;
}

int br_pair_wait(struct br_pair *pair, struct braid_op **op, int ms)
{
    int waited = 0, rc;

    do {
        int next = ms < 0 || ms - waited > LOOK ? LOOK : ms - waited;

        rc = braid_wait(*op, next);
        if (rc != -ETIMEDOUT || strncmp(br_error_message(), "still running", 13) != 0) {
            *op = NULL;
            return rc;
        }
        waited += next;
        rc = check_interrupt(pair);
    } while (!rc && (ms < 0 || waited < ms));
    return rc;
}

int br_pair_test(struct br_pair *pair, struct braid_op **op)
{
    int done, rc = braid_test(*op, &done);

    if (done)
        *op = NULL;
    return rc ? rc : check_interrupt(pair);
}

int br_pair_send_stop(struct br_pair *pair, uint64_t sent)
{
    struct br_pair_stop stop = {.sent = sent, .over = br_interrupted()};

    pair->sent_over = stop.over;
    return braid_send(pair->comm, &stop, sizeof stop, pair->other, &pair->options[BR_PAIR_STOP],
                      NULL);
}

bool br_pair_finished(const struct br_pair *pair)
{
    return pair->sent_over || pair->peer_stop.over;
}

int br_pair_send_row(struct br_pair *pair, const struct br_perf_row *row)
{
    return braid_send(pair->comm, row, sizeof *row, pair->other, &pair->options[BR_PAIR_ROW], NULL);
}

int br_pair_receive_row(struct br_pair *pair, struct br_perf_row *row)
{
    struct braid_op *op = NULL;
    int rc =
        braid_recv(pair->comm, row, sizeof *row, pair->other, &pair->options[BR_PAIR_ROW], &op);

    return rc ? rc : br_pair_wait(pair, &op, -1);
}
