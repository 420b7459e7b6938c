/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/store_job.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED_MAX 8 /* missing ranks that an error lists */

struct value {
    struct br_list node;
    char key[BR_STORE_KEY_MAX + 1];
    size_t bytes;
    uint8_t data[];
};

struct gather {
    struct br_list node;
    char name[BR_STORE_KEY_MAX + 1];
    uint32_t each, arrived;
    uint8_t *has; /* [size] */
    uint8_t data[];
};

int br_store_job_init(struct br_store_job *job, uint32_t size)
{
    memset(job, 0, sizeof *job);
    job->size = size;
    job->members = calloc(size, sizeof *job->members);
    if (!job->members)
        return br_error(ENOMEM, "no memory for a job of %u ranks", size);
    for (int i = 0; i < BR_STORE_BUCKETS; i++)
        br_list_init(&job->values[i]);
    br_list_init(&job->gathers);
    return 0;
}

static void free_value(struct br_store_job *job, struct value *value)
{
    job->value_bytes -= value->bytes;
    br_list_remove(&value->node);
    free(value);
}

static void free_gather(struct gather *gather)
{
    br_list_remove(&gather->node);
    free(gather->has);
    free(gather);
}

void br_store_job_destroy(struct br_store_job *job)
{
    for (int i = 0; i < BR_STORE_BUCKETS; i++)
        br_list_for_each_safe (node, &job->values[i])
            free_value(job, br_container_of(node, struct value, node));
    br_list_for_each_safe (node, &job->gathers)
        free_gather(br_container_of(node, struct gather, node));
    free(job->members);
}

/* The first reason stays. Everyone who waits hears it now, everyone else with the next request. */
static void __attribute__((format(printf, 3, 4)))
store_job_fail(struct br_store_job *job, int err, const char *format, ...)
{
    va_list args;

    if (job->failed)
        return;
    job->failed = err;
    va_start(args, format);
    vsnprintf(job->message, sizeof job->message, format, args);
    va_end(args);
    for (uint32_t i = 0; i < job->size; i++)
        if (job->members[i].connection && job->members[i].connection->waiting)
            br_store_connection_answer_error(job->members[i].connection, err, job->message);
}

/* ---- members --------------------------------------------------------------------------------- */

bool br_store_job_join(struct br_store_job *job, struct br_store_connection *c)
{
    const struct br_store_hello *hello = &c->hello;
    struct br_store_member *member = hello->rank < job->size ? &job->members[hello->rank] : NULL;

    if (hello->size != job->size)
        store_job_fail(
            job, EPROTO,
            "rank %u (process %u on %s) counts %u ranks, rank 0 counts %u: set the same WORLD_SIZE "
            "everywhere",
            hello->rank, hello->pid, hello->host, hello->size, job->size);
    else if (!member)
        store_job_fail(job, EPROTO, "process %u on %s has rank %u in a job of %u", hello->pid,
                       hello->host, hello->rank, job->size);
    else if (member->presence != BR_STORE_ABSENT)
        store_job_fail(job, EEXIST,
                       "two processes are rank %u: process %u on %s and process %u on %s; give "
                       "each its own RANK",
                       hello->rank, member->pid, member->host, hello->pid, hello->host);
    if (job->failed || !member) {
        if (member && member->presence == BR_STORE_ABSENT)
            member->presence = BR_STORE_LEFT; /* has heard it now */
        br_store_connection_answer_error(c, job->failed, job->message);
        return false;
    }
    member->presence = BR_STORE_PRESENT;
    member->connection = c;
    member->pid = hello->pid;
    memcpy(member->host, hello->host, sizeof member->host);
    return true;
}

void br_store_job_leave(struct br_store_job *job, struct br_store_connection *c, bool in_order)
{
    struct br_store_member *member = &job->members[c->hello.rank];

    member->presence = BR_STORE_LEFT;
    member->connection = NULL;
    c->waiting = 0;
    if (!in_order) {
        store_job_fail(
            job, ECONNRESET,
            "rank %u (process %u on %s) has ended or was lost while the job was starting; look for "
            "its own error",
            c->hello.rank, member->pid, member->host);
        return;
    }
    br_list_for_each (node, &job->gathers) {
        const struct gather *gather = br_container_of(node, struct gather, node);

        if (!gather->has[c->hello.rank]) {
            store_job_fail(job, ECONNRESET,
                           "rank %u (process %u on %s) has left, but others wait for it at '%s'",
                           c->hello.rank, member->pid, member->host, gather->name);
            return;
        }
    }
}

bool br_store_job_has_news(const struct br_store_job *job)
{
    for (uint32_t i = 0; i < job->size && job->failed; i++)
        if (job->members[i].presence == BR_STORE_ABSENT)
            return true;
    return false;
}

/* ---- values ---------------------------------------------------------------------------------- */

static struct br_list *store_job_bucket(struct br_store_job *job, const char *key)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (; *key; key++)
        hash = (hash ^ (uint8_t)*key) * 16777619u;
    return &job->values[hash % BR_STORE_BUCKETS];
}

static struct value *find_value(struct br_store_job *job, const char *key)
{
    br_list_for_each (node, store_job_bucket(job, key)) {
        struct value *value = br_container_of(node, struct value, node);

        if (!strcmp(value->key, key))
            return value;
    }
    return NULL;
}

static void store_job_put(struct br_store_job *job, struct br_store_connection *c,
                          const struct br_store_message *message)
{
    struct value *old = find_value(job, c->key), *value;

    if (job->value_bytes - (old ? old->bytes : 0) + message->value_bytes > BR_STORE_TOTAL_MAX) {
        br_store_connection_answer_error(c, ENOSPC, "the store is full");
        return;
    }
    value = malloc(sizeof *value + message->value_bytes);
    if (!value) {
        br_store_connection_answer_error(c, ENOMEM, "the store has no memory");
        return;
    }
    if (old)
        free_value(job, old);
    memcpy(value->key, c->key, sizeof value->key);
    value->bytes = message->value_bytes;
    memcpy(value->data, message->value, value->bytes);
    job->value_bytes += value->bytes;
    br_list_push_back(store_job_bucket(job, c->key), &value->node);
    br_store_connection_answer(c, BR_STORE_VALUE, NULL, 0);
    for (uint32_t i = 0; i < job->size; i++) {
        struct br_store_connection *other = job->members[i].connection;

        if (other && other->waiting == BR_STORE_GET && !strcmp(other->key, value->key))
            br_store_connection_answer(other, BR_STORE_VALUE, value->data, value->bytes);
    }
}

static void store_job_get(struct br_store_job *job, struct br_store_connection *c, uint64_t until)
{
    const struct value *value = find_value(job, c->key);

    if (value) {
        br_store_connection_answer(c, BR_STORE_VALUE, value->data, value->bytes);
        return;
    }
    c->waiting = BR_STORE_GET;
    c->waiting_until = until;
}

/* ---- gathers --------------------------------------------------------------------------------- */

static struct gather *find_gather(struct br_store_job *job, const char *name)
{
    br_list_for_each (node, &job->gathers) {
        struct gather *gather = br_container_of(node, struct gather, node);

        if (!strcmp(gather->name, name))
            return gather;
    }
    return NULL;
}

static struct gather *new_gather(struct br_store_job *job, const char *name, uint32_t each)
{
    struct gather *gather = malloc(sizeof *gather + (size_t)each * job->size);

    if (!gather)
        return NULL;
    gather->has = calloc(job->size, 1);
    if (!gather->has) {
        free(gather);
        return NULL;
    }
    snprintf(gather->name, sizeof gather->name, "%s", name);
    gather->each = each;
    gather->arrived = 0;
    br_list_push_back(&job->gathers, &gather->node);
    return gather;
}

static void finish_gather(struct br_store_job *job, struct gather *gather)
{
    for (uint32_t i = 0; i < job->size; i++) {
        struct br_store_connection *c = job->members[i].connection;

        if (c && c->waiting == BR_STORE_GATHER && !strcmp(c->key, gather->name))
            br_store_connection_answer(c, BR_STORE_VALUE, gather->data,
                                       (size_t)gather->each * job->size);
    }
    free_gather(gather);
}

static const struct br_store_member *first_left(const struct br_store_job *job)
{
    for (uint32_t i = 0; i < job->size; i++)
        if (job->members[i].presence == BR_STORE_LEFT)
            return &job->members[i];
    return NULL;
}

static void join_gather(struct br_store_job *job, struct br_store_connection *c,
                        const struct br_store_message *message, uint64_t until)
{
    struct gather *gather = find_gather(job, c->key);
    const struct br_store_member *left = first_left(job);
    uint32_t rank = c->hello.rank, each = message->request.value_bytes;

    c->waiting = BR_STORE_GATHER;
    c->waiting_until = until;
    if (!gather && left) {
        store_job_fail(job, ECONNRESET,
                       "rank %u (process %u on %s) has left, but rank %u waits for it at '%s'",
                       (uint32_t)(left - job->members), left->pid, left->host, rank, c->key);
        return;
    }
    if (!gather && (uint64_t)each * job->size > BR_STORE_GATHER_MAX) {
        store_job_fail(job, EINVAL,
                       "%u bytes of each of %u ranks at '%s' are too much for the store", each,
                       job->size, c->key);
        return;
    }
    if (!gather)
        gather = new_gather(job, c->key, each);
    if (!gather) {
        store_job_fail(job, ENOMEM, "the store has no memory for '%s'", c->key);
        return;
    }
    if (gather->each != each) {
        store_job_fail(
            job, EPROTO,
            "rank %u gives %u bytes at '%s', others give %u: different versions or settings?", rank,
            each, c->key, gather->each);
        return;
    }
    memcpy(gather->data + (size_t)rank * each, message->value, each);
    gather->has[rank] = 1;
    if (++gather->arrived == job->size)
        finish_gather(job, gather);
}

void br_store_job_request(struct br_store_job *job, struct br_store_connection *c,
                          const struct br_store_message *message, uint64_t now)
{
    uint64_t until = now + message->request.timeout_ms * BR_MS;

    memcpy(c->key, message->key, message->request.key_bytes);
    c->key[message->request.key_bytes] = 0;
    if (job->failed)
        br_store_connection_answer_error(c, job->failed, job->message);
    else if (message->kind == BR_STORE_PUT)
        store_job_put(job, c, message);
    else if (message->kind == BR_STORE_GET)
        store_job_get(job, c, until);
    else
        join_gather(job, c, message, until);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* "ranks 3, 7 of 9": those that have not come yet (gather NULL), or that are not at the gather.
 * Returns how many. */
static uint32_t store_job_missing(const struct br_store_job *job, const struct gather *gather,
                                  char *text, size_t size)
{
    uint32_t count = 0;
    size_t at = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < job->size; i++) {
        if (gather ? gather->has[i] : job->members[i].presence != BR_STORE_ABSENT)
            continue;
        if (count++ < NAMED_MAX)
            at += (size_t)snprintf(text + at, size - at, "%s%u", count > 1 ? ", " : "", i);
    }
    if (count > NAMED_MAX)
        snprintf(text + at, size - at, " and %u more", count - NAMED_MAX);
    return count;
}

static void late_gather(struct br_store_job *job, const struct gather *gather)
{
    char ranks[NAMED_MAX * 8 + 32];
    uint32_t count = store_job_missing(job, NULL, ranks, sizeof ranks);
    const char *refused = job->refused[0] ? "; refused meanwhile: " : "";

    if (count) {
        store_job_fail(job, ETIMEDOUT, "rank%s %s of %u never came; look for their own errors%s%s",
                       count > 1 ? "s" : "", ranks, job->size, refused, job->refused);
        return;
    }
    count = store_job_missing(job, gather, ranks, sizeof ranks);
    store_job_fail(job, ETIMEDOUT, "rank%s %s of %u did not come to '%s' in time",
                   count > 1 ? "s" : "", ranks, job->size, gather->name);
}

uint64_t br_store_job_expire(struct br_store_job *job, uint64_t now)
{
    uint64_t next = UINT64_MAX;

    for (uint32_t i = 0; i < job->size; i++) {
        struct br_store_connection *c = job->members[i].connection;

        if (!c || !c->waiting)
            continue;
        if (c->waiting_until > now) {
            if (c->waiting_until < next)
                next = c->waiting_until;
        } else if (c->waiting == BR_STORE_GATHER) {
            late_gather(job, find_gather(job, c->key)); /* answers everyone */
        } else {
            char text[BR_STORE_KEY_MAX + 64];

            snprintf(text, sizeof text, "nobody has stored '%s' in time", c->key);
            br_store_connection_answer_error(c, ETIMEDOUT, text);
        }
    }
    return next;
}
