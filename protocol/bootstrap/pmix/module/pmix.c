/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbered notes are in protocol/bootstrap/pmix/module.h. */
#include "protocol/bootstrap/pmix/module.h"

#include "base/thread.h"

#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A call of place() or share(), owned by its caller until `abandoned`, then by its thread. It may
 * hold an id, with its key, and is wiped before it goes. */
struct request {
    int (*run)(struct request *request);
    int result;
    bool ended;     /* the thread has written the result */
    bool abandoned; /* the caller's time is up */
    struct br_pmix_place place;
    unsigned char bytes[BR_PMIX_BYTES];
    size_t n;
    char text[BR_PMIX_MESSAGE];
};

static void request_free(struct request *request)
{
    explicit_bzero(request, sizeof *request);
    free(request);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards busy, ended and abandoned */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool busy; /* a request is with its thread, to which all that follows belongs */

static pid_t connected; /* the process that has called PMIx_Init(); 0: none */
static pmix_proc_t self;
static struct br_pmix_place known; /* size 0: not yet */
static unsigned shared;            /* calls of share() so far: each has a key of its own */

static int say(struct request *request, const char *what, pmix_status_t status)
{
    switch (status) {
    case PMIX_ERR_UNREACH:
        snprintf(
            request->text, sizeof request->text,
            "%s: no PMIx server answers (%s), although PMIX_NAMESPACE is set: the launcher has "
            "ended, or the variables are another process's",
            what, PMIx_Error_string(status));
        return -ECONNREFUSED;
    case PMIX_ERR_LOST_CONNECTION:
        snprintf(request->text, sizeof request->text, "%s: the PMIx server has gone", what);
        return -ECONNRESET;
    case PMIX_ERR_TIMEOUT:
        snprintf(request->text, sizeof request->text, "%s: the PMIx server waited in vain", what);
        return -ETIMEDOUT;
    case PMIX_ERR_NOT_FOUND:
        snprintf(request->text, sizeof request->text,
                 "%s: the PMIx server does not know it (two programs, one after the other, as one "
                 "rank? start each with its own mpirun or srun)",
                 what);
        return -EPROTO;
    default:
        snprintf(request->text, sizeof request->text, "%s: PMIx says %s (%d)", what,
                 PMIx_Error_string(status), status);
        return -EIO;
    }
}

/* At exit, in the process that has connected and not in a child that it has forked. */
static void leave(void)
{
    bool stuck;

    pthread_mutex_lock(&lock);
    stuck = busy;
    pthread_mutex_unlock(&lock);
    if (connected == getpid() && !stuck)
        PMIx_Finalize(NULL, 0);
}

static int connect_server(struct request *request)
{
    pmix_status_t status;

    if (connected)
        return 0;
    status = PMIx_Init(&self, NULL, 0);
    if (status != PMIX_SUCCESS)
        return say(request, "PMIx_Init", status);
    connected = getpid();
    atexit(leave);
    return 0;
}

/* *out = a number that the server knows about a rank, of whatever width it says it in. */
static pmix_status_t ask(pmix_rank_t rank, const char *key, uint32_t *out)
{
    pmix_value_t *value = NULL;
    pmix_status_t status;
    pmix_proc_t who;

    PMIX_LOAD_PROCID(&who, self.nspace, rank);
    status = PMIx_Get(&who, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS)
        return status;
    if (value->type == PMIX_UINT32)
        *out = value->data.uint32;
    else if (value->type == PMIX_UINT16)
        *out = value->data.uint16;
    else
        status = PMIX_ERR_TYPE_MISMATCH;
    PMIX_VALUE_RELEASE(value);
    return status;
}

static int run_place(struct request *request)
{
    struct br_pmix_place *place = &request->place;
    pmix_status_t status;
    int rc;

    if (!known.size) {
        rc = connect_server(request);
        if (rc < 0)
            return rc;
        place->rank = self.rank;
        status = ask(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &place->size);
        if (status != PMIX_SUCCESS)
            return say(request, "number of processes (" PMIX_JOB_SIZE ")", status);
        place->local_known =
            ask(self.rank, PMIX_LOCAL_RANK, &place->local_rank) == PMIX_SUCCESS &&
            ask(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, &place->local_size) == PMIX_SUCCESS;
        if (!place->local_known) {
            place->local_rank = 0;
            place->local_size = 1;
        }
        known = *place;
    }
    *place = known;
    return 0;
}

static pmix_status_t put(const char *key, struct request *request)
{
    pmix_byte_object_t object = {.bytes = (char *)request->bytes, .size = request->n};
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT, .data.bo = object};
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value); /* copies */

    return status == PMIX_SUCCESS ? PMIx_Commit() : status;
}

static int get(const char *key, struct request *request)
{
    pmix_value_t *value = NULL;
    pmix_status_t status;
    pmix_proc_t root;
    int rc = 0;

    PMIX_LOAD_PROCID(&root, self.nspace, 0);
    status = PMIx_Get(&root, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS)
        return say(request, "what rank 0 has put", status);
    if (value->type == PMIX_BYTE_OBJECT && value->data.bo.size == request->n) {
        memcpy(request->bytes, value->data.bo.bytes, request->n);
    } else {
        snprintf(request->text, sizeof request->text,
                 "rank 0 has put something else than %zu bytes: it runs another version of braid",
                 request->n);
        rc = -EPROTO;
    }
    if (value->type == PMIX_BYTE_OBJECT && value->data.bo.bytes)
        explicit_bzero(value->data.bo.bytes, value->data.bo.size); /* a copy for us */
    PMIX_VALUE_RELEASE(value);
    return rc;
}

static int run_share(struct request *request)
{
    const pmix_info_t collect = {.key = PMIX_COLLECT_DATA,
                                 .value = {.type = PMIX_BOOL, .data.flag = true}};
    pmix_status_t status;
    char key[32];
    int rc = connect_server(request);

    if (rc < 0)
        return rc;
    snprintf(key, sizeof key, "braid.id.%u", shared++);
    if (self.rank == 0) {
        status = put(key, request);
        if (status != PMIX_SUCCESS)
            return say(request, "PMIx_Put", status);
    }
    status = PMIx_Fence(NULL, 0, &collect, 1);
    if (status != PMIX_SUCCESS && status != PMIX_ERR_PARTIAL_SUCCESS)
        return say(request, "PMIx_Fence", status);
    return self.rank == 0 ? 0 : get(key, request);
}

static void *request_thread(void *argument)
{
    struct request *request = argument;
    int result = request->run(request);

    pthread_mutex_lock(&lock);
    request->result = result;
    request->ended = true;
    busy = false;
    if (request->abandoned)
        request_free(request);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static struct timespec end_of(uint64_t timeout)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    timeout += (uint64_t)end.tv_nsec;
    end.tv_sec += (time_t)(timeout / 1000000000);
    end.tv_nsec = (long)(timeout % 1000000000);
    return end;
}

/* Runs a request in a thread (note 1). *request is the caller's again when it returns 0 or has
 * failed by itself (*kept). */
static int request_run(struct request *request, uint64_t timeout, bool *kept)
{
    const struct timespec end = end_of(timeout);
    pthread_t thread;
    int err = 0;

    *kept = true;
    pthread_mutex_lock(&lock);
    while (busy && !err)
        err = pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC, &end);
    if (!err) {
        err = br_thread_start(&thread, request_thread, request);
        if (err) {
            pthread_mutex_unlock(&lock);
            snprintf(request->text, sizeof request->text, "no thread for PMIx: %s", strerror(err));
            return -err;
        }
        pthread_detach(thread);
        busy = true;
        while (!request->ended && !err)
            err = pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC, &end);
        request->abandoned = !request->ended;
        *kept = request->ended;
        err = request->ended ? 0 : ETIMEDOUT;
    }
    pthread_mutex_unlock(&lock);
    return err ? -err : request->result;
}

/* Runs the request and hands out its message and its results; `request` is a form of it. */
static int call(struct request *form, uint64_t timeout, const char *what, char *text)
{
    struct request *request = malloc(sizeof *request);
    bool kept;
    int rc;

    if (!request) {
        snprintf(text, BR_PMIX_MESSAGE, "no memory for a call of PMIx");
        return -ENOMEM;
    }
    *request = *form;
    rc = request_run(request, timeout, &kept);
    if (rc == -ETIMEDOUT && (!kept || !request->text[0])) {
        snprintf(text, BR_PMIX_MESSAGE, "%s within %.1f s", what, (double)timeout / 1e9);
    } else {
        snprintf(text, BR_PMIX_MESSAGE, "%s", request->text);
        *form = *request;
    }
    if (kept)
        request_free(request);
    return rc;
}

static int place(uint64_t timeout, struct br_pmix_place *out, char *text)
{
    struct request form = {.run = run_place};
    int rc = call(&form, timeout, "the PMIx server did not answer", text);

    if (rc == 0)
        *out = form.place;
    return rc;
}

static int share(void *bytes, size_t n, uint64_t timeout, char *text)
{
    struct request form = {.run = run_share, .n = n};
    int rc;

    memcpy(form.bytes, bytes, n);
    rc = call(&form, timeout, "not all processes of the launcher called braid_init()", text);
    if (rc == 0)
        memcpy(bytes, form.bytes, n);
    explicit_bzero(&form, sizeof form);
    return rc;
}

__attribute__((visibility("default"))) const struct br_pmix_module br_pmix_module = {
    .version = BR_PMIX_VERSION,
    .place = place,
    .share = share,
};
