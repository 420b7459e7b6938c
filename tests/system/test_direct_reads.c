/* SPDX-License-Identifier: BSD-3-Clause */
/* Real processes that read each other's memory (collectives/shm/direct.h), as the counters show;
 * and one that may not from some time on. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "collectives/shm/direct.h"
#include "tests/system/ranks.h"

#define BLOCK      50000  /* int32; no whole number of lines or pages */
#define PAIR_BLOCK 400000 /* the same, of 1.5 MiB */
#define ROOT       1
#define REFUSED    2 /* the rank that may not read */

struct job {
    struct braid_comm *comm;
    int rank, size;
    int32_t *in, *out; /* `size` blocks */
};

static int32_t value(int from, int to, int i)
{
    return from * 1000003 + to * 10007 + i;
}

static int open_job(struct job *job, struct braid_comm *comm)
{
    *job = (struct job){.comm = comm, .rank = braid_rank(comm), .size = braid_size(comm)};
    job->in = malloc((size_t)job->size * BLOCK * sizeof *job->in);
    job->out = malloc((size_t)job->size * BLOCK * sizeof *job->out);
    CHECK(job->in && job->out, "no memory");
    for (int to = 0; to < job->size; to++)
        for (int i = 0; i < BLOCK; i++)
            job->in[to * BLOCK + i] = value(job->rank, to, i);
    return 0;
}

static void close_job(struct job *job)
{
    free(job->in);
    free(job->out);
}

/* Has the call gone through the shared segment, and how many bytes has it read directly? */
static int alltoall(struct job *job, uint64_t *read)
{
    struct braid_stats before = {0}, after = {0};

    memset(job->out, 0xee, (size_t)job->size * BLOCK * sizeof *job->out);
    RETURNS(0, braid_stats(job->comm, &before));
    RETURNS(0, braid_alltoall(job->comm, job->in, job->out, BLOCK, BRAID_INT32, NULL, NULL));
    RETURNS(0, braid_stats(job->comm, &after));
    for (int from = 0; from < job->size; from++)
        for (int i = 0; i < BLOCK; i++)
            CHECK(job->out[from * BLOCK + i] == value(from, job->rank, i), "%d of rank %d", i,
                  from);
    CHECK(after.shm_operations == before.shm_operations + 1, "not in the segment");
    *read = after.mapped_bytes - before.mapped_bytes;
    return 0;
}

static int scatter(struct job *job, uint64_t *read)
{
    struct braid_stats before = {0}, after = {0};

    memset(job->out, 0xee, BLOCK * sizeof *job->out);
    RETURNS(0, braid_stats(job->comm, &before));
    RETURNS(0, braid_scatter(job->comm, job->in, job->out, BLOCK, BRAID_INT32, ROOT, NULL, NULL));
    RETURNS(0, braid_stats(job->comm, &after));
    for (int i = 0; i < BLOCK; i++)
        CHECK(job->out[i] == value(ROOT, job->rank, i), "%d", i);
    CHECK(after.shm_operations == before.shm_operations + 1, "not in the segment");
    *read = after.mapped_bytes - before.mapped_bytes;
    return 0;
}

static int reads(struct braid_comm *comm, void *context)
{
    uint64_t block = BLOCK * sizeof(int32_t), read;
    struct job job;

    (void)context;
    RETURNS(0, open_job(&job, comm));
    for (int k = 0; k < 3; k++) {
        RETURNS(0, alltoall(&job, &read));
        CHECK(read == 0, "%llu bytes", (unsigned long long)read);
        RETURNS(0, scatter(&job, &read));
        CHECK(read == (job.rank == ROOT ? 0 : block), "%llu bytes", (unsigned long long)read);
    }
    close_job(&job);
    return 0;
}

/* From now on the kernel refuses process_vm_readv() to all threads of this process. */
static int refuse_reads(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};

    CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "%s", strerror(errno));
    CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program), "%s",
          strerror(errno));
    return 0;
}

/* The call in which that shows ends well, through the segment, and so do those that follow, in
 * which no rank reads. */
static int refused(struct braid_comm *comm, void *context)
{
    struct braid_stats stats = {0};
    struct job job;
    uint64_t read;

    (void)context;
    RETURNS(0, open_job(&job, comm));
    RETURNS(0, scatter(&job, &read));
    CHECK(read > 0 || job.rank == ROOT, "nothing was read");
    if (job.rank == REFUSED)
        RETURNS(0, refuse_reads());
    RETURNS(0, scatter(&job, &read));
    CHECK(read == 0 || job.rank != REFUSED, "%llu bytes", (unsigned long long)read);
    RETURNS(0, scatter(&job, &read));
    CHECK(read == 0, "%llu bytes", (unsigned long long)read);
    RETURNS(0, alltoall(&job, &read));
    CHECK(read == 0, "%llu bytes", (unsigned long long)read);
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(stats.downgrade_direct_reads > 0, "the refusal was not counted");
    close_job(&job);
    return 0;
}

/* More ranks than cores: memory is read directly only then. */
static void run(ranks_main *body)
{
    int size = (int)sysconf(_SC_NPROCESSORS_ONLN) + 1;

    if (size > RANKS_MOST || !br_shm_direct_possible())
        skip();
    ranks_run(&(struct ranks){.size = size < 4 ? 4 : size,
                              .backend = "shm",
                              .timeout_ms = RANKS_PATIENCE},
              body, NULL);
}

/* An allgather or alltoall of two blocks for two ranks; whether the other rank's memory was read in
 * place. */
static int exchange(struct job *job, bool gathers, bool *mapped)
{
    struct braid_stats before = {0}, after = {0};

    memset(job->out, 0xee, 2 * PAIR_BLOCK * sizeof *job->out);
    RETURNS(0, braid_stats(job->comm, &before));
    RETURNS(0, (gathers ? braid_allgather : braid_alltoall)(job->comm, job->in, job->out,
                                                            PAIR_BLOCK, BRAID_INT32, NULL, NULL));
    RETURNS(0, braid_stats(job->comm, &after));
    for (int from = 0; from < 2; from++)
        for (int i = 0; i < PAIR_BLOCK; i++)
            CHECK(job->out[from * PAIR_BLOCK + i] == value(from, gathers ? 0 : job->rank, i),
                  "%d of rank %d", i, from);
    *mapped = after.mapped_bytes - before.mapped_bytes == PAIR_BLOCK * sizeof *job->out;
    return 0;
}

static int rooted_call(const struct job *job, enum br_collective collective)
{
    void *out = collective == BR_BROADCAST && job->rank == ROOT ? job->in : job->out;

    switch (collective) {
    case BR_BROADCAST:
        return braid_broadcast(job->comm, job->in, out, BLOCK, BRAID_INT32, ROOT, NULL, NULL);
    case BR_REDUCE:
        return braid_reduce(job->comm, job->in, out, BLOCK, BRAID_INT32, BRAID_MAX, ROOT, NULL,
                            NULL);
    case BR_SCATTER:
        return braid_scatter(job->comm, job->in, out, BLOCK, BRAID_INT32, ROOT, NULL, NULL);
    default:
        return braid_gather(job->comm, job->in, out, BLOCK, BRAID_INT32, ROOT, NULL, NULL);
    }
}

/* The same of a rooted one; mapped: on the rank that reads. */
static int rooted(struct job *job, enum br_collective collective, bool *mapped)
{
    struct braid_stats before = {0}, after = {0};
    bool reads = (collective == BR_REDUCE || collective == BR_GATHER) == (job->rank == ROOT);

    memset(job->out, 0xee, 2 * BLOCK * sizeof *job->out);
    RETURNS(0, braid_stats(job->comm, &before));
    RETURNS(0, rooted_call(job, collective));
    RETURNS(0, braid_stats(job->comm, &after));
    *mapped = after.mapped_bytes - before.mapped_bytes == BLOCK * sizeof *job->out;
    for (int i = 0; i < BLOCK && reads; i++) {
        int32_t a = value(0, 0, i), b = value(1, 0, i);
        int32_t most = a > b ? a : b;
        int32_t first = collective == BR_REDUCE ? most : collective == BR_GATHER ? a : b;

        CHECK(job->out[i] == first, "%d of collective %d", i, collective);
        CHECK(collective != BR_GATHER || job->out[BLOCK + i] == b, "%d of the second", i);
    }
    return 0;
}

/* Until it is read in place, and then from other memory. */
static int pair_rooted(struct job *job, int32_t *allocated, int32_t *other)
{
    static const enum br_collective collectives[] = {BR_BROADCAST, BR_REDUCE, BR_SCATTER,
                                                     BR_GATHER};

    for (int k = 0; k < 4; k++) {
        int32_t any = 0, mine;
        bool mapped;

        job->in = allocated;
        while (!any) {
            RETURNS(0, rooted(job, collectives[k], &mapped));
            mine = mapped;
            RETURNS(0,
                    braid_allreduce(job->comm, &mine, &any, 1, BRAID_INT32, BRAID_MAX, NULL, NULL));
        }
        job->in = other;
        RETURNS(0, rooted(job, collectives[k], &mapped));
        CHECK(!mapped, "collective %d of other memory", collectives[k]);
    }
    return 0;
}

/* Two ranks: memory of braid_alloc() is read in place as soon as both map each other's; where one
 * has other memory, and in place, the bytes come as well. */
static int pair(struct braid_comm *comm, void *context)
{
    size_t bytes = 2 * PAIR_BLOCK * sizeof(int32_t);
    struct job job = {.comm = comm, .rank = braid_rank(comm), .size = 2};
    int32_t *in[2] = {braid_alloc(comm, bytes), malloc(bytes)}; /* allocated, other memory */
    bool mapped;

    (void)context;
    job.out = braid_alloc(comm, bytes);
    CHECK(in[0] && in[1] && job.out, "no memory");
    for (int which = 0; which < 2; which++)
        for (int to = 0; to < 2; to++)
            for (int i = 0; i < PAIR_BLOCK; i++)
                in[which][to * PAIR_BLOCK + i] = value(job.rank, to, i);
    for (int k = 0; k < 2; k++) {
        int32_t all = 0, mine;

        job.in = in[0];
        while (!all) {
            RETURNS(0, exchange(&job, k, &mapped));
            mine = mapped;
            RETURNS(0, braid_allreduce(comm, &mine, &all, 1, BRAID_INT32, BRAID_MIN, NULL, NULL));
        }
        job.in = in[job.rank];
        RETURNS(0, exchange(&job, k, &mapped));
        job.in = in[0];
    }
    memcpy(job.out, in[0], bytes);
    RETURNS(0, braid_alltoall(comm, job.out, job.out, PAIR_BLOCK, BRAID_INT32, NULL, NULL));
    for (int from = 0; from < 2; from++)
        for (int i = 0; i < PAIR_BLOCK; i++)
            CHECK(job.out[from * PAIR_BLOCK + i] == value(from, job.rank, i), "%d in place", i);
    RETURNS(0, pair_rooted(&job, in[0], in[1]));
    free(in[1]);
    RETURNS(0, braid_free(comm, in[0]));
    RETURNS(0, braid_free(comm, job.out));
    return 0;
}

static void direct_reads__of_a_pair(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 2, .backend = "shm", .timeout_ms = RANKS_PATIENCE}, pair,
              NULL);
}

static void direct_reads__are_used(void **state)
{
    (void)state;
    run(reads);
}

static void direct_reads__refused(void **state)
{
    (void)state;
    run(refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct_reads__are_used),
        cmocka_unit_test(direct_reads__of_a_pair),
        cmocka_unit_test(direct_reads__refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
