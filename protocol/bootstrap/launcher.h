/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launchers: the programs that start the processes of a job (mpirun, srun, torchrun, `braid run`),
 * and how a process hears from its launcher who it is.
 *
 * The table in launcher.c holds one struct br_launcher for each way of speaking with a launcher,
 * the innermost first: under srun, torchrun may have started this process, and under torchrun
 * nobody else. The first that detects itself is asked, unless BRAID_LAUNCHER names one:
 *
 *   env       WORLD_SIZE and RANK, or BRAID_WORLD_SIZE and BRAID_RANK: `braid run`, or by hand
 *   torchrun  the same of torchrun, known by TORCHELASTIC_RUN_ID
 *   pmix      a server of PMIx: Open MPI's mpirun, `srun --mpi=pmix` (pmix/)
 *   pmi1      PMI version 1 by its wire (pmi1.h): mpiexec of MPICH and Intel MPI, `srun --mpi=pmi2`
 *   slurm     the variables of srun alone (slurm.h)
 *   none      no launcher: a job of one process
 *   auto      the first that is there; where there is none, a job of one process (the default)
 *
 * How the ranks find each other. A launcher that knows the host of rank 0 gives an address and a
 * port for the store (environment.h). One that can carry bytes between its processes need not: rank
 * 0 then makes a struct braid_id (id.h), which has addresses, port and a random key in it, and the
 * launcher carries it to all (`share`). So neither address nor secret has to be set by anybody. It
 * happens once for each braid_init(), after everything that the user has set was read and found
 * valid.
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_LAUNCHER_H
#define BR_PROTOCOL_BOOTSTRAP_LAUNCHER_H

#include <stddef.h>
#include <stdint.h>

struct br_environment;
struct br_secret;

struct br_launcher {
    const char *name; /* as BRAID_LAUNCHER and `braid info` call it, as "pmix" */
    /*
     * Has this launcher started the process? Looks at environment variables only, so that it is
     * quick and has no side effect. Returns the name of the variable that shows it (static), for
     * `braid info` and errors; NULL: it has not.
     */
    const char *(*detect)(void);
    /*
     * Says who this process is: sets rank and size of *out, and where the launcher knows them
     * local_rank, local_size and local_known. A launcher that knows where rank 0 is sets address
     * and port as well, where they are empty, and where it carries nothing run_id. All else of *out
     * is set already and is only read. br_environment_read() checks what it says (size from 1 to
     * BR_ENVIRONMENT_SIZE_MAX, rank < size, local_rank < local_size <= size). The call may talk to
     * the launcher but not to other ranks; `braid info` calls it, too. It may be called more than
     * once in a process. Ends by the deadline (ns of br_clock_now()). Returns 0, or a negative
     * errno with a message that says what to do.
     */
    int (*fill)(struct br_environment *out, uint64_t deadline);
    /*
     * Carries n bytes (n <= 256) from rank 0, which gives them in `bytes`, to all other ranks,
     * which receive them there. Collective over all processes of the launcher; called once for each
     * braid_init() of more than one rank, by one thread at a time, always after fill(). A launcher
     * that keeps what was put has to use a fresh key each time ("braid.id.0", "braid.id.1", ...).
     * Ends by the deadline, also when a rank never comes or the launcher is gone: -ETIMEDOUT,
     * -ECONNRESET or another negative errno with a message. NULL: the launcher carries nothing, and
     * fill() or the user says where rank 0 is.
     */
    int (*share)(const struct br_environment *environment, void *bytes, size_t n,
                 uint64_t deadline);
};

/* torchrun's variables and our own (launcher_variables.c) */
extern const struct br_launcher br_launcher_env, br_launcher_torchrun;
/* pmix/launcher.c */
extern const struct br_launcher br_launcher_pmix;
extern const struct br_launcher br_launcher_pmi1;  /* launcher_pmi1.c */
extern const struct br_launcher br_launcher_slurm; /* slurm.c */

/* Sets local_rank, local_size and local_known of *out by LOCAL_RANK, LOCAL_WORLD_SIZE and their
 * namesakes of braid, where both are set; out->size is known. Where the caller gave the size
 * (out->launcher is NULL), they may be of another job, and are believed where they fit. Returns 0,
 * or -EINVAL with a message. */
int br_launcher_read_local(struct br_environment *out);

/*
 * Finds the launcher of this process, as BRAID_LAUNCHER says: *out is NULL where there is none and
 * the process is a job of its own. *sign is the variable that shows it; "BRAID_LAUNCHER" when the
 * user named one that does not detect itself. Returns 0, or -EINVAL with a message: BRAID_LAUNCHER
 * is no launcher's name, or several processes were started by a launcher that braid does not know,
 * each of which would be a job of its own. No other thread may call setenv() meanwhile.
 */
int br_launcher_find(const struct br_launcher **out, const char **sign);

/*
 * Where the launcher carries the id of rank 0 (environment->id_comes): makes it at rank 0, and
 * everywhere fills id, has_id and port of *environment by it, and *secret, unless the user has
 * given one. Rank 0 listens on environment->port, 0: on any. Collective; blocks up to
 * environment->launcher_deadline. Does nothing otherwise. Returns 0,
 * or a negative errno with a message; rank 0's id is closed then.
 */
int br_launcher_meet(struct br_environment *environment, struct br_secret *secret);

/* The launcher at that place of the table; NULL behind the last one. */
const struct br_launcher *br_launcher_at(int place);

#endif
