/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/discovery.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "protocol/bootstrap/secret.h"
#include "tests/protocol/vectors.h"
#include "tests/says.h"

static const struct br_discovery_config config = {.rank = 4,
                                                  .size = 9,
                                                  .key = {1, 2, 3},
                                                  .nonce = {7, 8, 9},
                                                  .n_nics = 1,
                                                  .nics = {"lo"},
                                                  .max_neighbours = 4};

static void write__read_back(void **state)
{
    struct br_discovery_message m, read;

    (void)state;
    br_discovery_write(&config, 3, &m);
    assert_int_equal(br_discovery_read(&config, &m, sizeof m, &read), 0);
    assert_int_equal(read.rank, 4);
    assert_int_equal(read.nic, 3);
}

/* The one of doc/wire.md, which was computed apart, with Python's hashlib.blake2b. */
static void write__vector(void **state)
{
    struct br_discovery_config sender = {.rank = 3, .size = 9, .n_nics = 2};
    struct br_discovery_message m;
    struct br_secret job;
    uint8_t expected[128];

    (void)state;
    for (int i = 0; i < 32; i++)
        job.key[i] = (uint8_t)i;
    for (int i = 0; i < BR_DISCOVERY_NONCE_BYTES; i++)
        sender.nonce[i] = (uint8_t)(0x40 + i);
    br_secret_subkey(&job, BR_SECRET_DISCOVERY, sender.key);
    br_discovery_write(&sender, 1, &m);
    assert_int_equal(vector("beacon", expected, sizeof expected), sizeof m);
    assert_memory_equal(&m, expected, sizeof m);
}

/* Every byte is covered by the proof or checked. */
static void read__changed_bytes(void **state)
{
    struct br_discovery_message m, read;

    (void)state;
    for (size_t i = 0; i < sizeof m; i++) {
        br_discovery_write(&config, 0, &m);
        ((uint8_t *)&m)[i] ^= 1;
        assert_int_equal(br_discovery_read(&config, &m, sizeof m, &read), -EPROTO);
    }
    br_discovery_write(&config, 0, &m);
    for (size_t n = 0; n < sizeof m; n++)
        assert_int_equal(br_discovery_read(&config, &m, n, &read), -EPROTO);
}

static void read__of_another_job(void **state)
{
    struct br_discovery_config other = config;
    struct br_discovery_message m, read;

    (void)state;
    other.key[31] = 1;
    br_discovery_write(&other, 0, &m);
    assert_int_equal(br_discovery_read(&config, &m, sizeof m, &read), -EPROTO);
    other = config; /* the same secret, an earlier start */
    other.nonce[15] = 1;
    br_discovery_write(&other, 0, &m);
    assert_int_equal(br_discovery_read(&config, &m, sizeof m, &read), -EPROTO);
    other = config;
    other.rank = 9;
    br_discovery_write(&other, 0, &m);
    assert_int_equal(br_discovery_read(&config, &m, sizeof m, &read), -EPROTO);
    br_discovery_write(&config, BR_DISCOVERY_NICS, &m);
    assert_int_equal(br_discovery_read(&config, &m, sizeof m, &read), -EPROTO);
}

static void open__no_such_nic(void **state)
{
    struct br_discovery_config missing = config;
    struct br_discovery *discovery;

    (void)state;
    snprintf(missing.nics[0], sizeof missing.nics[0], "nosuch0");
    assert_int_equal(br_discovery_open(&missing, &discovery), -ENODEV);
    assert_says(br_error_message(), "nosuch0");
}

/* Multicast does not come back to its sender: alone one hears nobody, and it takes the time that
 * was asked for. */
static void listen__alone(void **state)
{
    struct br_discovery_neighbour seen[4];
    struct br_discovery *discovery;
    uint64_t start = br_clock_now();

    (void)state;
    assert_int_equal(br_discovery_open(&config, &discovery), 0);
    br_discovery_listen(discovery, 30 * BR_MS);
    assert_true(br_clock_now() - start >= 30 * BR_MS);
    assert_true(br_discovery_nic_up(discovery, 0));
    assert_int_equal(br_discovery_neighbours(discovery, seen, 4), 0);
    br_discovery_close(discovery);
    br_discovery_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write__read_back),     cmocka_unit_test(read__changed_bytes),
        cmocka_unit_test(read__of_another_job), cmocka_unit_test(open__no_such_nic),
        cmocka_unit_test(listen__alone),        cmocka_unit_test(write__vector),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
