/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rank absent|dies|works [FILE]: one rank of a job under whichever launcher, for what goes wrong
 * there. `absent`: rank 1 lives, but never calls braid_init(). `dies`: rank 1 kills itself when all
 * have met. Otherwise all-reduces go on until one fails; then the rank says why and ends with 3.
 * When they have begun, rank 0 makes FILE.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <braid/braid.h>

/* As the launcher numbers its processes. */
static int number(void)
{
    static const char *const names[] = {"RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return atoi(getenv(names[i]));
    return -1;
}

int main(int argc, char **argv)
{
    struct braid_comm *comm;
    int64_t sum = 1;

    if (argc < 2)
        return 2;
    if (!strcmp(argv[1], "absent") && number() == 1)
        pause();
    if (braid_init(NULL, &comm)) {
        fprintf(stderr, "braid_init: %s\n", braid_last_error());
        return 3;
    }
    for (int calls = 0;; calls++) {
        if (braid_allreduce(comm, &sum, &sum, 1, BRAID_INT64, BRAID_MAX, NULL, NULL))
            break;
        if (calls)
            continue;
        if (!strcmp(argv[1], "dies") && braid_rank(comm) == 1)
            raise(SIGKILL);
        if (argc > 2 && braid_rank(comm) == 0)
            fclose(fopen(argv[2], "w"));
    }
    fprintf(stderr, "here is rank %d: %s\n", braid_rank(comm), braid_last_error());
    braid_finalize(comm);
    return 3;
}
