/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/launcher.h"
#include "protocol/bootstrap/pmix/pmix.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The variables that a client needs. The server's address has one for each version of its protocol:
 * PMIX_SERVER_URI2, PMIX_SERVER_URI41 and so on. */
static const char *pmix_detect(void)
{
    static const char uri[] = "PMIX_SERVER_URI";

    if (!br_env_is_set("PMIX_NAMESPACE") || !br_env_is_set("PMIX_RANK"))
        return NULL;
    for (char **entry = environ; entry && *entry; entry++)
        if (!strncmp(*entry, uri, sizeof uri - 1))
            return "PMIX_NAMESPACE";
    return NULL;
}

static uint64_t left(uint64_t deadline)
{
    uint64_t now = br_clock_now();

    return deadline > now ? deadline - now : 0;
}

static int pmix_fill(struct br_environment *out, uint64_t deadline)
{
    const struct br_pmix_module *module;
    char text[BR_PMIX_MESSAGE];
    struct br_pmix_place place;
    int rc = br_pmix_library(&module);

    if (rc < 0)
        return br_error_prefix(
            rc, "PMIX_NAMESPACE is set, as by a launcher with PMIx (where srun has set it, "
                "--mpi=pmi2 and BRAID_LAUNCHER=slurm do without): ");
    rc = module->place(left(deadline), &place, text);
    if (rc < 0)
        return br_error(-rc, "%s", text);
    out->rank = place.rank;
    out->size = place.size;
    out->local_rank = place.local_rank;
    out->local_size = place.local_size;
    out->local_known = place.local_known;
    return 0;
}

static int pmix_share(const struct br_environment *environment, void *bytes, size_t n,
                      uint64_t deadline)
{
    const struct br_pmix_module *module;
    char text[BR_PMIX_MESSAGE];
    int rc = br_pmix_library(&module);

    if (rc == 0) {
        rc = module->share(bytes, n, left(deadline), text);
        if (rc < 0)
            br_error(-rc, "%s", text);
    }
    return rc < 0 ? br_error_prefix(rc, "rank %u of %u: ", environment->rank, environment->size)
                  : 0;
}

const struct br_launcher br_launcher_pmix = {
    .name = "pmix", .detect = pmix_detect, .fill = pmix_fill, .share = pmix_share};
