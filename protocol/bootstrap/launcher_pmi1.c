/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The launcher `pmi1`: this process's one conversation with its launcher.
 *
 * 1. A launcher takes one "init" and one "finalize" of a process, so the conversation begins with
 *    the first braid_init() that needs it and ends at exit(). A process that ends otherwise after
 * it has begun counts as failed: then Hydra and Slurm end the others, as they should.
 * 2. An MPI library in the process speaks over the same descriptor. Then it is not ours: the
 * program carries an id by MPI_Bcast.
 */
#include "protocol/bootstrap/launcher.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/process.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/pmi1.h"
#include "protocol/bootstrap/slurm.h"
#include "protocol/bootstrap/store_socket.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define END_TIME (2 * BR_SEC)

static struct {
    pthread_mutex_t lock;
    struct br_pmi1 pmi;
    bool connected, begun; /* there is pmi.fd; "init" was said */
    unsigned forks;        /* br_process_forks when it was connected */
    uint32_t rank, size;
    unsigned shared; /* how often */
    bool failed;     /* what was said and what was heard may not match any more */
} conversation = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *pmi1_detect(void)
{
    if (br_env_is_set("PMI_FD") && br_env_is_set("PMI_SIZE"))
        return "PMI_FD";
    return br_env_is_set("PMI_PORT") && br_env_is_set("PMI_ID") ? "PMI_PORT" : NULL;
}

/* At exit(). A child of fork() leaves its parent's conversation alone. */
static void end_conversation(void)
{
    if (conversation.begun && !conversation.failed && conversation.forks == br_process_forks)
        br_pmi1_end(&conversation.pmi, br_clock_now() + END_TIME);
}

/* An MPI library of MPICH's family, which speaks PMI-1 itself. */
static bool has_mpi(void)
{
    static const char *const names[] = {"libmpi.so.12", "libmpich.so.12"};

    if (dlsym(RTLD_DEFAULT, "MPI_Init"))
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);

        if (library) {
            dlclose(library);
            return true;
        }
    }
    return false;
}

static int connect_port(uint64_t deadline)
{
    char host[BR_ENVIRONMENT_ADDRESS_MAX];
    const char *text = getenv("PMI_PORT"), *colon = strrchr(text, ':');
    int64_t id;
    char *end;
    long port = colon ? strtol(colon + 1, &end, 10) : 0;
    int fd, rc = br_env_number("PMI_ID", 0, INT_MAX, 0, &id);

    if (rc < 0)
        return rc;
    if (!colon || *end || port < 1 || port > 65535 || (size_t)(colon - text) >= sizeof host)
        return br_error(EINVAL, "PMI_PORT=%.80s is no HOST:PORT", text);
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    rc = br_socket_connect(host, (uint16_t)port, deadline, &fd);
    if (rc < 0)
        return br_error_prefix(rc, "PMI_PORT=%.80s: ", text);
    br_pmi1_make(&conversation.pmi, fd);
    rc = br_pmi1_introduce(&conversation.pmi, (int)id, &conversation.rank, &conversation.size,
                           deadline);
    if (rc < 0)
        close(fd);
    return rc;
}

static int read_descriptor(void)
{
    int64_t fd, rank = 0, size;
    int rc = br_env_number("PMI_FD", 0, INT_MAX, -1, &fd);

    if (rc == 0)
        rc = br_env_number("PMI_SIZE", 1, BR_ENVIRONMENT_SIZE_MAX, 0, &size);
    if (rc == 0)
        rc = br_env_number("PMI_RANK", 0, size - 1, 0, &rank);
    if (rc == 0 && !br_env_is_set("PMI_RANK"))
        rc = br_error(EINVAL, "PMI_FD and PMI_SIZE are set, but PMI_RANK is not");
    if (rc < 0)
        return rc;
    br_pmi1_make(&conversation.pmi, (int)fd);
    conversation.rank = (uint32_t)rank;
    conversation.size = (uint32_t)size;
    return 0;
}

/* With the lock held. */
static int connect_once(uint64_t deadline)
{
    int rc = br_process_watch();

    if (rc < 0)
        return rc;
    if (conversation.connected && conversation.forks == br_process_forks)
        return 0;
    if (conversation.connected)
        return br_error(EPERM, "this process is a fork of one that speaks with the launcher; give "
                               "it a braid_config of its own");
    if (!pmi1_detect())
        return br_error(EINVAL, "BRAID_LAUNCHER=pmi1, but neither PMI_FD and PMI_SIZE nor PMI_PORT "
                                "and PMI_ID are set: start the processes with mpiexec, or srun "
                                "--mpi=pmi2");
    rc = br_env_is_set("PMI_FD") ? read_descriptor() : connect_port(deadline);
    if (rc < 0)
        return rc;
    conversation.connected = true;
    conversation.forks = br_process_forks;
    return 0;
}

/* Hydra and Intel MPI say who shares this host by variables of theirs, Slurm by its own. */
static int read_local(struct br_environment *out)
{
    int64_t rank, size;
    int rc;

    if (!br_env_is_set("MPI_LOCALRANKID") || !br_env_is_set("MPI_LOCALNRANKS"))
        return br_slurm_read_local(out);
    rc = br_env_number("MPI_LOCALNRANKS", 1, out->size, 1, &size);
    if (rc == 0)
        rc = br_env_number("MPI_LOCALRANKID", 0, size - 1, 0, &rank);
    if (rc < 0)
        return rc;
    out->local_known = true;
    out->local_rank = (uint32_t)rank;
    out->local_size = (uint32_t)size;
    return 0;
}

static int pmi1_fill(struct br_environment *out, uint64_t deadline)
{
    int rc;

    pthread_mutex_lock(&conversation.lock);
    rc = connect_once(deadline);
    out->rank = conversation.rank;
    out->size = conversation.size;
    pthread_mutex_unlock(&conversation.lock);
    return rc < 0 ? rc : read_local(out);
}

static int pmi1_share(const struct br_environment *environment, void *bytes, size_t n,
                      uint64_t deadline)
{
    char key[32];
    int rc = 0;

    if (has_mpi())
        return br_error(EINVAL, "this program has an MPI library in it, which speaks with the "
                                "launcher itself: give braid_config size, rank and an id of "
                                "braid_id_create() that MPI_Bcast carried");
    pthread_mutex_lock(&conversation.lock);
    if (conversation.failed)
        rc = br_error(ECONNRESET, "it has failed before in this process");
    if (rc == 0 && !conversation.begun)
        rc = br_pmi1_begin(&conversation.pmi, deadline);
    if (rc == 0 && !conversation.begun) {
        conversation.begun = true;
        atexit(end_conversation);
    }
    snprintf(key, sizeof key, "braid.id.%u", conversation.shared);
    if (rc == 0)
        rc = br_pmi1_share(&conversation.pmi, environment->rank == 0, key, bytes, n, deadline);
    conversation.shared += rc == 0;
    conversation.failed = rc < 0;
    pthread_mutex_unlock(&conversation.lock);
    return rc;
}

const struct br_launcher br_launcher_pmi1 = {
    .name = "pmi1", .detect = pmi1_detect, .fill = pmi1_fill, .share = pmi1_share};
