/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the store knows of its job: who has come, which values are stored, which gathers are under
 * way, who waits for what. Belongs to the server's thread; reads no clock and touches no socket but
 * through br_store_connection_answer().
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_STORE_JOB_H
#define BR_PROTOCOL_BOOTSTRAP_STORE_JOB_H

#include "protocol/bootstrap/store_connection.h"

#define BR_STORE_BUCKETS 1024

enum br_store_presence { BR_STORE_ABSENT, BR_STORE_PRESENT, BR_STORE_LEFT };

struct br_store_member {
    enum br_store_presence presence;
    struct br_store_connection *connection; /* while PRESENT */
    uint32_t pid;
    char host[BR_STORE_HOST_BYTES];
};

struct br_store_job {
    uint32_t size;
    struct br_store_member *members; /* [size], by rank */
    struct br_list values[BR_STORE_BUCKETS];
    size_t value_bytes; /* of all values */
    struct br_list gathers;
    int failed;                          /* positive errno, or 0 */
    char message[BR_STORE_TEXT_MAX + 1]; /* why it failed */
    char refused[96]; /* who was refused last and why; it may be who is missing */
};

int br_store_job_init(struct br_store_job *job, uint32_t size); /* -ENOMEM */
void br_store_job_destroy(struct br_store_job *job);

/* A connection has proved the secret: true when it becomes the member of its rank. Otherwise it has
 * been answered, and the job has failed, because somebody's RANK or WORLD_SIZE is wrong. */
bool br_store_job_join(struct br_store_job *job, struct br_store_connection *c);
/* PUT, GET, GATHER of a member that waits for nothing. */
void br_store_job_request(struct br_store_job *job, struct br_store_connection *c,
                          const struct br_store_message *message, uint64_t now);
/* A member has said BYE (in_order), or its connection is lost, which fails the job. */
void br_store_job_leave(struct br_store_job *job, struct br_store_connection *c, bool in_order);

/* true when the job has failed and some rank has not heard of it because it has not come yet. */
bool br_store_job_has_news(const struct br_store_job *job);

/* Ends what has waited too long. Returns when to call again, ns; UINT64_MAX: nobody waits. */
uint64_t br_store_job_expire(struct br_store_job *job, uint64_t now);

#endif
