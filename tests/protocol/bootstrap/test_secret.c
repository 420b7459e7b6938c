/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/secret.h"
#include "tests/protocol/vectors.h"
#include "tests/says.h"

#define TEXT "0123456789abcdef0123456789abcdef"

static struct br_environment job;
static char path[64];

static int setup(void **state)
{
    int fd;

    (void)state;
    unsetenv("BRAID_SECRET");
    unsetenv("BRAID_SECRET_FILE");
    unsetenv("BRAID_INSECURE");
    memset(&job, 0, sizeof job);
    job.size = 4;
    job.port = 29501;
    strcpy(job.address, "localhost");
    strcpy(path, "/tmp/braid-secret-XXXXXX");
    fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_file(const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, mode);
    setenv("BRAID_SECRET_FILE", path, 1);
}

static void refused(int err, const char *text)
{
    struct br_secret secret;

    assert_int_equal(br_secret_read(&job, NULL, &secret), -err);
    if (!says_all(br_error_message(), text))
        fail_msg("\"%s\" does not say \"%s\"", br_error_message(), text);
}

static void secret_derive__vector(void **state)
{
    static const uint8_t expected[32] = {
        0x72, 0x09, 0xcb, 0x57, 0x8a, 0x5e, 0x13, 0x02, 0xfe, 0x08, 0x0d,
        0xba, 0xfd, 0x4d, 0x9c, 0x65, 0xa7, 0xb7, 0x75, 0x81, 0x43, 0xb6,
        0x1a, 0xe1, 0xbd, 0xb7, 0xd6, 0xfa, 0xbf, 0xaf, 0xf2, 0xca,
    };
    struct br_secret secret;

    (void)state;
    assert_int_equal(br_secret_derive(TEXT, strlen(TEXT), &secret), 0);
    assert_memory_equal(secret.key, expected, sizeof expected);
}

/* Those of doc/wire.md, which were computed apart, with Python's hashlib.blake2b. */
static void secret_subkey__vectors(void **state)
{
    static const char *const names[] = {
        [BR_SECRET_STORE] = "key-store",       [BR_SECRET_LINKS] = "key-links",
        [BR_SECRET_DISCOVERY] = "key-beacons", [BR_SECRET_REGIONS] = "key-regions",
        [BR_SECRET_JOB_NAME] = "key-job-name",
    };
    uint8_t expected[64], key[BR_SECRET_KEY_BYTES];
    struct br_secret secret;

    (void)state;
    for (size_t i = 0; i < sizeof secret.key; i++)
        secret.key[i] = (uint8_t)i;
    for (enum br_secret_purpose p = BR_SECRET_STORE; p <= BR_SECRET_JOB_NAME; p++) {
        uint64_t number = br_secret_number(&secret, p);

        br_secret_subkey(&secret, p, key);
        assert_int_equal(vector(names[p], expected, sizeof expected), sizeof key);
        assert_memory_equal(key, expected, sizeof key);
        assert_memory_equal(&number, expected, sizeof number);
    }
}

static void secret_read__variable_file_and_config_agree(void **state)
{
    struct br_secret expected, secret;

    (void)state;
    assert_int_equal(br_secret_derive(TEXT, strlen(TEXT), &expected), 0);
    assert_int_equal(br_secret_read(&job, TEXT, &secret), 0);
    assert_memory_equal(&secret, &expected, sizeof secret);
    setenv("BRAID_SECRET", TEXT, 1);
    assert_int_equal(br_secret_read(&job, NULL, &secret), 0);
    assert_memory_equal(&secret, &expected, sizeof secret);
    unsetenv("BRAID_SECRET");
    write_file(TEXT "\n", 0600);
    assert_int_equal(br_secret_read(&job, NULL, &secret), 0);
    assert_memory_equal(&secret, &expected, sizeof secret);
    setenv("BRAID_SECRET", TEXT, 1);
    refused(EINVAL, "both set");
}

static void secret_read__too_short(void **state)
{
    (void)state;
    setenv("BRAID_SECRET", "fifteen letters", 1);
    refused(EINVAL, "15 bytes");
    unsetenv("BRAID_SECRET");
    write_file("fifteen letters\n", 0600);
    refused(EINVAL, "15 bytes");
}

static void secret_read__file_that_others_may_read(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0620, 0601};

    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        write_file(TEXT, modes[i]);
        refused(EACCES, "chmod 600");
    }
}

static void secret_read__bad_files(void **state)
{
    char large[BR_SECRET_TEXT_MAX + 2];

    (void)state;
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = 0;
    write_file(large, 0600);
    refused(EINVAL, "BRAID_SECRET_FILE|bytes");
    setenv("BRAID_SECRET_FILE", "/tmp", 1);
    refused(EINVAL, "plain file");
    setenv("BRAID_SECRET_FILE", "/nowhere/secret", 1);
    refused(ENOENT, "/nowhere/secret");
}

static void secret_read__absent(void **state)
{
    struct br_secret secret, again;

    (void)state;
    refused(EINVAL, "braid run");
    setenv("BRAID_INSECURE", "2", 1);
    refused(EINVAL, "BRAID_INSECURE");
    setenv("BRAID_INSECURE", "1", 1);
    assert_int_equal(br_secret_read(&job, NULL, &secret), 0);
    assert_int_equal(br_secret_read(&job, NULL, &again), 0);
    assert_memory_equal(&secret, &again, sizeof secret);
}

static void secret_read__torchrun_tells_jobs_apart(void **state)
{
    struct br_secret one, same, other;

    (void)state;
    job.torchrun = true;
    strcpy(job.run_id, "one");
    assert_int_equal(br_secret_read(&job, NULL, &one), 0);
    assert_int_equal(br_secret_read(&job, NULL, &same), 0);
    assert_memory_equal(&one, &same, sizeof one);
    strcpy(job.run_id, "two");
    assert_int_equal(br_secret_read(&job, NULL, &other), 0);
    assert_memory_not_equal(&one, &other, sizeof one);
    strcpy(job.run_id, "one");
    job.port++;
    assert_int_equal(br_secret_read(&job, NULL, &other), 0);
    assert_memory_not_equal(&one, &other, sizeof one);
}

static void secret_read__single_process_gets_a_random_one(void **state)
{
    struct br_secret one, other;

    (void)state;
    job.size = 1;
    assert_int_equal(br_secret_read(&job, NULL, &one), 0);
    assert_int_equal(br_secret_read(&job, NULL, &other), 0);
    assert_memory_not_equal(&one, &other, sizeof one);
    br_secret_wipe(&one);
    br_secret_wipe(&other);
    assert_memory_equal(&one, &other, sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(secret_derive__vector, setup, teardown),
        cmocka_unit_test(secret_subkey__vectors),
        cmocka_unit_test_setup_teardown(secret_read__variable_file_and_config_agree, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(secret_read__too_short, setup, teardown),
        cmocka_unit_test_setup_teardown(secret_read__file_that_others_may_read, setup, teardown),
        cmocka_unit_test_setup_teardown(secret_read__bad_files, setup, teardown),
        cmocka_unit_test_setup_teardown(secret_read__absent, setup, teardown),
        cmocka_unit_test_setup_teardown(secret_read__torchrun_tells_jobs_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(secret_read__single_process_gets_a_random_one, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
