/* SPDX-License-Identifier: BSD-3-Clause */
/* Over tcp, and over a device that does what the test says. tests/transport/verbs/test_self_copy.c
 * does it with remote keys and with each call of a NIC's failing. */
#include "transport/self_copy.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/error.h"
#include "mirror.h"
#include "tests/says.h"

#define BYTES 65536u

static uint8_t memory[2 * BYTES];
static struct br_region region = {.base = memory, .bytes = sizeof memory, .segment_fd = -1};
static const struct br_device_config config = {.name = "127.0.0.1", .level = 3, .gid = 7};

static int setup(void **state)
{
    (void)state;
    mirror_reset();
    for (uint32_t i = 0; i < BYTES; i++)
        memory[i] = (uint8_t)(i * 7 + i / 256);
    memset(memory + BYTES, 0, BYTES);
    return 0;
}

static void assert_all_gone(void)
{
    assert_int_equal(mirror.opened, 0);
    assert_int_equal(mirror.links_open, 0);
    assert_int_equal(mirror.registered, 0);
}

static void self_copy__over_tcp(void **state)
{
    (void)state;
    assert_int_equal(
        br_self_copy(br_transport_get("tcp"), &config, &region, 0, BYTES + 64, BYTES - 64), 0);
    assert_memory_equal(memory, memory + BYTES + 64, BYTES - 64);
}

/* Whom it waits for is itself: it takes no port away from the job, and needs none of the range. */
static void self_copy__beside_a_job_that_has_all_ports(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t bytes = sizeof address;
    char range[16];

    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    snprintf(range, sizeof range, "%u-%u", ntohs(address.sin_port), ntohs(address.sin_port));
    setenv("BRAID_PORT_RANGE", range, 1);
    assert_int_equal(br_self_copy(br_transport_get("tcp"), &config, &region, 0, BYTES, BYTES), 0);
    unsetenv("BRAID_PORT_RANGE");
    close(fd);
}

static void self_copy__the_device_that_is_named(void **state)
{
    static const struct br_device_config none = {.name = "no-such-nic"};

    (void)state;
    assert_int_equal(br_self_copy(&mirror_ops, &config, &region, 0, BYTES, BYTES), 0);
    assert_memory_equal(memory, memory + BYTES, BYTES);
    assert_string_equal(mirror.config.name, "127.0.0.1");
    assert_int_equal(mirror.config.level, 3);
    assert_int_equal(mirror.config.gid, 7);
    assert_all_gone();
    assert_int_equal(br_self_copy(br_transport_get("tcp"), &none, &region, 0, BYTES, BYTES),
                     -ENODEV);
    assert_says(br_error_message(), "no-such-nic");
}

/* Nobody else's link is trusted, and its end is nobody's business. */
static void self_copy__strangers_are_let_alone(void **state)
{
    (void)state;
    mirror.stranger = true;
    assert_int_equal(br_self_copy(&mirror_ops, &config, &region, 0, BYTES, BYTES), 0);
    assert_memory_equal(memory, memory + BYTES, BYTES);
    assert_true(mirror.links[1].authenticated);
    assert_false(mirror.links[2].authenticated);
    assert_int_equal(mirror.links_open, 1); /* which device_close() closes */
}

static void self_copy__says_why_not(void **state)
{
    (void)state;
    mirror.closes = EIO;
    assert_int_equal(br_self_copy(&mirror_ops, &config, &region, 0, BYTES, BYTES), -EIO);
    assert_says(br_error_message(), "the cable is cut");
    assert_all_gone();
    mirror_reset();
    mirror.refuses = EOPNOTSUPP;
    assert_int_equal(br_self_copy(&mirror_ops, &config, &region, 0, BYTES, BYTES), -EOPNOTSUPP);
    assert_says(br_error_message(), "no way");
    assert_all_gone();
}

/* A frame that is refused leaves its link as it is: no event follows, and nothing is waited for
 * (-ETIMEDOUT). */
static void self_copy__a_frame_is_refused(void **state)
{
    (void)state;
    mirror.takes_not = EINVAL;
    assert_int_equal(br_self_copy(&mirror_ops, &config, &region, 0, BYTES, BYTES), -EINVAL);
    assert_says(br_error_message(), "not this frame");
    assert_all_gone();
}

static void self_copy__more_than_a_frame_of_the_device(void **state)
{
    (void)state;
    mirror.max_frame = BYTES - 1;
    assert_int_equal(br_self_copy(&mirror_ops, &config, &region, 0, BYTES, BYTES), -EMSGSIZE);
    assert_says(br_error_message(), "127.0.0.1|65536|65535");
    assert_all_gone();
    assert_int_equal(br_self_copy(&mirror_ops, &config, &region, 0, BYTES, BYTES - 1), 0);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(self_copy__over_tcp, setup),
        cmocka_unit_test_setup(self_copy__beside_a_job_that_has_all_ports, setup),
        cmocka_unit_test_setup(self_copy__the_device_that_is_named, setup),
        cmocka_unit_test_setup(self_copy__strangers_are_let_alone, setup),
        cmocka_unit_test_setup(self_copy__says_why_not, setup),
        cmocka_unit_test_setup(self_copy__a_frame_is_refused, setup),
        cmocka_unit_test_setup(self_copy__more_than_a_frame_of_the_device, setup),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
