/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/launcher.h"

#include "base/env.h"
#include "base/error.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/id.h"
#include "protocol/bootstrap/secret.h"

#include <braid/braid.h>
#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Innermost first: what one of them has started may run in a job of a later one. */
static const struct br_launcher *const launchers[] = {
    &br_launcher_torchrun, &br_launcher_env,   &br_launcher_pmix,
    &br_launcher_pmi1,     &br_launcher_slurm,
};
#define N_LAUNCHERS (int)(sizeof launchers / sizeof *launchers)

const struct br_launcher *br_launcher_at(int place)
{
    return place >= 0 && place < N_LAUNCHERS ? launchers[place] : NULL;
}

/* Launchers of which braid takes nothing. Without this each process would be a job of one rank:
 * everything would succeed, and nothing would be summed. */
static int refuse_unknown(void)
{
    static const struct {
        const char *launcher, *variable, *rank;
        int64_t most; /* a larger value says that there are other processes */
    } signs[] = {
        {"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", 1},
        {"MVAPICH's launcher", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", 1},
        {"a launcher with PMI", "PMI_SIZE", "PMI_RANK", 1},
        {"MPICH's or Intel MPI's mpirun", "MPI_LOCALNRANKS", "MPI_LOCALRANKID", 1},
        /* of a step: a batch script has none */
        {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", 1},
        {"flux run", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", 1},
        {"a launcher with PMIx", "PMIX_RANK", "PMIX_RANK",
         0}, /* the number of ranks is not in the environment */
    };

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const char *value = getenv(signs[i].variable);
        char *end;

        if (!value || !*value || strtoll(value, &end, 10) <= signs[i].most || *end)
            continue;
        return br_error(EINVAL,
                        "%s=%.20s: %s has started several processes, but braid does not take ranks "
                        "from it, and each "
                        "would be a "
                        "job of its own: start them with `braid run` or torchrun, or set in each "
                        "WORLD_SIZE, RANK (as "
                        "%s), "
                        "MASTER_ADDR and MASTER_PORT; BRAID_LAUNCHER=none if each shall be a "
                        "job of its own",
                        signs[i].variable, value, signs[i].launcher, signs[i].rank);
    }
    return 0;
}

int br_launcher_find(const struct br_launcher **out, const char **sign)
{
    enum { AUTO, NONE, FIRST };
    const char *words[FIRST + N_LAUNCHERS + 1] = {"auto", "none"};
    int choice, rc;

    *out = NULL;
    *sign = "BRAID_LAUNCHER";
    for (int i = 0; i < N_LAUNCHERS; i++)
        words[FIRST + i] = launchers[i]->name;
    rc = br_env_choice("BRAID_LAUNCHER", words, AUTO, &choice);
    if (rc || choice == NONE)
        return rc;
    for (int i = 0; i < N_LAUNCHERS; i++) {
        const char *shown = launchers[i]->detect();

        if (choice != FIRST + i && (choice != AUTO || !shown))
            continue;
        *out = launchers[i];
        if (shown)
            *sign = shown;
        return 0;
    }
    *sign = "";
    return refuse_unknown();
}

int br_launcher_meet(struct br_environment *environment, struct br_secret *secret)
{
    const struct br_launcher *launcher = environment->launcher;
    bool local = environment->local_known && environment->local_size == environment->size;
    char text[BR_ERROR_BYTES] = "";
    struct braid_id id = {0};
    int rc, made = 0;

    if (!environment->id_comes)
        return 0;
    /* if that fails, the others get an empty id, so that they do not wait for rank 0 */
    if (environment->rank == 0) {
        made = br_id_open(local, environment->port, &id);
        if (made == 0)
            made = br_id_read(&id, &environment->id);
        if (made < 0)
            snprintf(text, sizeof text, "%s", br_error_message());
    }
    rc = launcher->share(environment, &id, sizeof id, environment->launcher_deadline);
    if (rc == 0 && environment->rank > 0)
        rc = br_id_read(&id, &environment->id);
    sodium_memzero(&id, sizeof id);
    if (made < 0)
        rc = br_error(-made, "%s", text);
    if (rc == 0 && sodium_is_zero(secret->key, sizeof secret->key))
        *secret = environment->id.secret;
    if (rc < 0) {
        br_id_close(&environment->id);
        return br_error_prefix(rc, "%s (%s): ", launcher->name, environment->sign);
    }
    environment->has_id = true;
    environment->port = environment->id.port;
    return 0;
}
