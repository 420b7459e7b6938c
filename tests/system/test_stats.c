/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of real ranks: what one has sent the others have received, over every back end; queues
 * are counted by priority. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/http.h"
#include "collectives/stats/snapshot.h"
#include "tests/system/ranks.h"

#define RANKS 3
#define COUNT 200000 /* float32: several slices */
#define SMALL 1000   /* eagerly */
#define RAILS (8 * RANKS)

/* Bytes to each rank and from it, with frames and messages. */
struct sums {
    uint64_t tx[RANKS], rx[RANKS], tx_frames[RANKS], rx_frames[RANKS];
};

static int work(struct braid_comm *comm)
{
    float *in = calloc(COUNT, sizeof *in), *out = calloc(COUNT, sizeof *out);
    int rank = braid_rank(comm), next = (rank + 1) % RANKS, before = (rank + RANKS - 1) % RANKS;
    struct braid_op *op;

    CHECK(in && out, "no memory");
    for (int i = 0; i < 3; i++) {
        RETURNS(0, braid_allreduce(comm, in, out, COUNT, BRAID_FLOAT32, BRAID_SUM, NULL, NULL));
        RETURNS(0, braid_allreduce(comm, in, out, SMALL, BRAID_FLOAT32, BRAID_SUM, NULL, NULL));
        RETURNS(0, braid_send(comm, in, SMALL, next, NULL, &op));
        RETURNS(0, braid_recv(comm, out, SMALL, before, NULL, NULL));
        RETURNS(0, braid_wait(op, -1));
    }
    free(in);
    free(out);
    return 0;
}

static int sum_up(struct braid_comm *comm, struct sums *sums)
{
    struct braid_rail_stats rails[RAILS] = {0};
    struct braid_stats stats = {0};
    uint64_t tx = 0, rx = 0;
    int n;

    memset(sums, 0, sizeof *sums);
    n = braid_rail_stats(comm, rails, RAILS);
    CHECK(n >= RANKS - 1 && n <= RAILS, "%d rails", n);
    for (int i = 0; i < n; i++) {
        CHECK(rails[i].up == 1 && rails[i].peer != braid_rank(comm), "rail %d", i);
        sums->tx[rails[i].peer] += rails[i].tx_bytes;
        sums->rx[rails[i].peer] += rails[i].rx_bytes;
        sums->tx_frames[rails[i].peer] += rails[i].tx_frames;
        sums->rx_frames[rails[i].peer] += rails[i].rx_frames;
        tx += rails[i].tx_bytes;
        rx += rails[i].rx_bytes;
    }
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(stats.tx_bytes == tx && stats.rx_bytes == rx, "the sums are not those of the rails");
    CHECK(stats.progress_calls && stats.busy_ns && stats.process_cpu_ns, "the worker's time");
    CHECK(!stats.outstanding && !stats.failed_operations, "%llu operations",
          (unsigned long long)stats.outstanding);
    return 0;
}

/* Bytes of the barrier and the allgather; less than any transfer of work(). */
#define UNDER_WAY 1000

/* Frames are exact: what is sent while ranks look and compare goes in messages. */
static int adds_up(struct braid_comm *comm, void *context)
{
    struct sums mine, all[RANKS];
    uint64_t frames = 0, bytes = 0;
    int rank = braid_rank(comm);

    (void)context;
    RETURNS(0, work(comm));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    RETURNS(0, sum_up(comm, &mine));
    RETURNS(0, braid_allgather(comm, &mine, all, sizeof mine, BRAID_UINT8, NULL, NULL));
    for (int r = 0; r < RANKS; r++) {
        if (r == rank)
            continue;
        CHECK(mine.tx_frames[r] == all[r].rx_frames[rank], "%llu frames to rank %d, which has %llu",
              (unsigned long long)mine.tx_frames[r], r, (unsigned long long)all[r].rx_frames[rank]);
        CHECK(mine.tx[r] + UNDER_WAY > all[r].rx[rank] && mine.tx[r] < all[r].rx[rank] + UNDER_WAY,
              "%llu bytes to rank %d, which has %llu", (unsigned long long)mine.tx[r], r,
              (unsigned long long)all[r].rx[rank]);
        frames += mine.tx_frames[r];
        bytes += mine.tx[r];
    }
    CHECK(frames && bytes > COUNT * sizeof(float), "%llu bytes in %llu frames",
          (unsigned long long)bytes, (unsigned long long)frames);
    return 0;
}

/* A send to a receiver that is late waits for READY, and is in no queue meanwhile; when it has
 * ended the time is there. */
static int waits(struct braid_comm *comm, void *context)
{
    struct braid_peer_stats peers[RANKS] = {0};
    struct braid_rail_stats one = {0};
    struct braid_op *op;
    uint8_t *memory = calloc(1, 1 << 20);
    int rank = braid_rank(comm), n;
    uint64_t value;

    (void)context;
    CHECK(memory, "no memory");
    if (rank == 0) {
        RETURNS(0, braid_send(comm, memory, 1 << 20, 1, NULL, &op));
        RETURNS(-ETIMEDOUT, braid_wait(op, 10)); /* it is under way, and waits */
        ranks_tell(0);
        RETURNS(0, braid_wait(op, -1));
    }
    if (rank == 1) {
        ranks_await(0, 1);
        ranks_sleep_ms(30);
        RETURNS(0, braid_recv(comm, memory, 1 << 20, 0, NULL, NULL));
    }
    n = braid_peer_stats(comm, peers, RANKS);
    CHECK(n == RANKS - 1, "%d peers", n);
    CHECK(braid_peer_stats(comm, NULL, 0) == RANKS - 1 &&
              braid_rail_stats(comm, &one, 1) >= RANKS - 1,
          "less room than there is");
    RETURNS(0, braid_stats_get(comm, "peer/1/peer", &value));
    CHECK(value == (uint64_t)peers[1].peer, "peer %llu", (unsigned long long)value);
    RETURNS(0, braid_stats_get(comm, "peer/1/ready_messages", &value));
    CHECK(value == peers[1].ready_messages, "%llu READYs", (unsigned long long)value);
    RETURNS(0, braid_stats_get(comm, "rail/0/up", &value));
    CHECK(value == 1, "rail 0 is not up");
    RETURNS(-ENOENT, braid_stats_get(comm, "peer/2/peer", &value));
    if (rank == 0) {
        CHECK(peers[0].peer == 1 && peers[0].ready_messages >= 1, "%llu READYs",
              (unsigned long long)peers[0].ready_messages);
        CHECK(peers[0].ready_wait_ns > 5000000, "waited %llu ns",
              (unsigned long long)peers[0].ready_wait_ns);
        CHECK(!peers[0].queued_high && !peers[0].queued_normal && !peers[0].queued_low &&
                  !peers[0].queued_bytes,
              "something is queued");
    }
    free(memory);
    return 0;
}

static void stats__add_up(void **state)
{
    (void)state;
    for (int k = 0; k < RANKS_KINDS; k++) {
        struct ranks job = ranks_kinds[k];

        job.size = RANKS;
        job.timeout_ms = 60000;
        ranks_run(&job, adds_up, NULL);
    }
}

static void stats__waiting_for_ready(void **state)
{
    struct ranks job = ranks_kinds[1];

    (void)state;
    job.size = RANKS;
    job.timeout_ms = 60000;
    ranks_run(&job, waits, NULL);
}

/* The name of the only job that has a socket in the folder, as `braid top` reads it. */
static int read_name(const char *folder, char name[BR_JOB_NAME])
{
    struct br_snapshot snapshot;
    char path[400] = "", *text = NULL;
    struct dirent *entry;
    DIR *dir = opendir(folder);

    CHECK(dir, "no %s", folder);
    while ((entry = readdir(dir)))
        if (strstr(entry->d_name, ".sock"))
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    closedir(dir);
    RETURNS(0, br_http_ask(path, "/stats", RANKS_PATIENCE, &text));
    RETURNS(0, br_snapshot_parse(text, &snapshot));
    snprintf(name, BR_JOB_NAME, "%s", snapshot.name);
    br_snapshot_free(&snapshot);
    free(text);
    return 0;
}

#define LETTERS_60 "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij"

/* Names end between characters, and have nothing that a terminal takes for a command. */
static int names(struct braid_comm *comm, void *folder)
{
    static const char *const cases[][2] = {
        {"\"tensor\" \\ parallel", "\"tensor\" \\ parallel"},
        {"a\033[31mb\n\tc\xff", "a?[31mb  c?"},
        {LETTERS_60 "abcd", LETTERS_60 "abc"},
        {LETTERS_60 "ab\u00e9", LETTERS_60 "ab"},
        {LETTERS_60 "a\u00e9", LETTERS_60 "a\u00e9"},
        {LETTERS_60 "\U0001f600", LETTERS_60},
        {"", ""},
    };
    char name[BR_JOB_NAME];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RETURNS(0, braid_job_name(comm, cases[i][0]));
        if (read_name(folder, name))
            return 1;
        CHECK(!strcmp(name, cases[i][1]), "case %zu: %s", i, name);
    }
    return 0;
}

static void stats__names_of_jobs(void **state)
{
    struct ranks job = {.size = 1, .timeout_ms = RANKS_PATIENCE};
    char folder[] = "/tmp/braid-names-XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(folder));
    setenv("BRAID_STATS", folder, 1);
    ranks_run(&job, names, folder);
    unsetenv("BRAID_STATS");
    rmdir(folder);
}

/* By how many one collective changes shm_operations. */
static int through_the_segment(struct braid_comm *comm, size_t bytes, uint64_t expected)
{
    static uint8_t data[64u << 10];
    struct braid_stats before = {0}, after = {0};

    RETURNS(0, braid_stats(comm, &before));
    RETURNS(0, braid_broadcast(comm, data, data, bytes, BRAID_UINT8, 0, NULL, NULL));
    RETURNS(0, braid_stats(comm, &after));
    CHECK(after.shm_operations - before.shm_operations == expected, "%zu bytes", bytes);
    return 0;
}

/* context: the user has said 4 KiB, which is the default of all-reduces. */
static int limit(struct braid_comm *comm, void *context)
{
    return through_the_segment(comm, 4096, 1) || through_the_segment(comm, 8192, !context);
}

static void stats__a_limit_that_was_said_holds_for_all_collectives(void **state)
{
    const struct ranks job = {.size = 2, .timeout_ms = RANKS_PATIENCE};

    ranks_run(&job, limit, NULL);
    setenv("BRAID_SHM_COLLECTIVE_BYTES", "4096", 1);
    ranks_run(&job, limit, state);
    unsetenv("BRAID_SHM_COLLECTIVE_BYTES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stats__add_up),
        cmocka_unit_test(stats__waiting_for_ready),
        cmocka_unit_test(stats__names_of_jobs),
        cmocka_unit_test(stats__a_limit_that_was_said_holds_for_all_collectives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
