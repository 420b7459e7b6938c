/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that know nothing but their rank, the size and an id: no launcher, no variable. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <braid/braid.h>

#define RANKS 3

/* Joins and sums; the exit code of a rank. */
static int be_rank(int rank, const struct braid_id *id)
{
    struct braid_config config = {.size = RANKS, .rank = rank, .id = id};
    float value = (float)rank + 1, sum = 0;
    struct braid_comm *comm;
    int rc = braid_init(&config, &comm);

    if (!rc)
        rc = braid_allreduce(comm, &value, &sum, 1, BRAID_FLOAT32, BRAID_SUM, NULL, NULL);
    if (!rc)
        rc = braid_finalize(comm);
    if (rc)
        fprintf(stderr, "rank %d: %s\n", rank, braid_last_error());
    return rc ? 1 : sum == RANKS * (RANKS + 1) / 2.0f ? 0 : 2;
}

/* Rank 0 makes an id for each round in its own process and hands it over by pipes. */
static void init__by_an_id(void **state)
{
    int pipes[RANKS][2], status;

    (void)state;
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(pipe(pipes[r]), 0);
    for (int r = 0; r < RANKS; r++) {
        if (fork())
            continue;
        clearenv();
        for (int round = 0, rc; round < 2; round++) {
            struct braid_id id;

            if (r == 0 && braid_id_create(&id))
                _exit(3);
            for (int to = 1; r == 0 && to < RANKS; to++)
                if (write(pipes[to][1], &id, sizeof id) != sizeof id)
                    _exit(4);
            if (r > 0 && read(pipes[r][0], &id, sizeof id) != sizeof id)
                _exit(5);
            rc = be_rank(r, &id);
            if (rc)
                _exit(rc);
        }
        _exit(0);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
        close(pipes[r][0]);
        close(pipes[r][1]);
    }
}

static void init__one_id_one_job(void **state)
{
    struct braid_config config = {.size = 1};
    struct braid_comm *comm;
    struct braid_id id;

    (void)state;
    assert_int_equal(braid_id_create(&id), 0);
    config.id = &id;
    assert_int_equal(braid_init(&config, &comm), 0);
    assert_int_equal(braid_finalize(comm), 0);
    assert_int_equal(braid_id_free(&id), -EINVAL);
    /* what was used cannot be used again by a job of two: rank 0 says so and does not wait */
    config = (struct braid_config){.size = 2, .id = &id};
    assert_int_equal(braid_init(&config, &comm), -EINVAL);
    assert_non_null(strstr(braid_last_error(), "braid_id_create"));
    id.bytes[9] ^= 1;
    assert_int_equal(braid_init(&config, &comm), -EINVAL);
    assert_non_null(strstr(braid_last_error(), "checksum"));
}

static void id_free__only_what_is_there(void **state)
{
    struct braid_id id;

    (void)state;
    assert_int_equal(braid_id_create(NULL), -EINVAL);
    assert_int_equal(braid_id_free(NULL), -EINVAL);
    assert_int_equal(braid_id_create(&id), 0);
    assert_int_equal(braid_id_free(&id), 0);
    assert_int_equal(braid_id_free(&id), -EINVAL);
    id.bytes[50] ^= 1;
    assert_int_equal(braid_id_free(&id), -EINVAL);
    assert_non_null(strstr(braid_last_error(), "checksum"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init__by_an_id),
        cmocka_unit_test(init__one_id_one_job),
        cmocka_unit_test(id_free__only_what_is_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
