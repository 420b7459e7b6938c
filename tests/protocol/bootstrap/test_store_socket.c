/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/store_socket.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/says.h"

static int failing_call; /* what listen() and getsockname() say; 0: what the kernel says */

int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);
int __real_getsockname(int fd, struct sockaddr *address, socklen_t *bytes);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes);

int __wrap_listen(int fd, int backlog)
{
    errno = failing_call;
    return failing_call ? -1 : __real_listen(fd, backlog);
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
    errno = failing_call;
    return failing_call ? -1 : __real_getsockname(fd, address, bytes);
}

/* Callers close what they have: by then the number may be another's. */

static void socket_listen__another_is_quicker(void **state)
{
    int fd = 0;

    (void)state;
    failing_call = EADDRINUSE;
    assert_int_equal(br_socket_listen("127.0.0.1", 0, true, &fd), -EADDRINUSE);
    failing_call = 0;
    assert_int_equal(fd, -1);
    assert_says(br_error_message(), "another program");
}

static void socket_reserve__socket_has_no_name(void **state)
{
    uint16_t port;
    int fd = 0;

    (void)state;
    failing_call = ENOBUFS;
    assert_int_equal(br_socket_reserve("127.0.0.1", &port, &fd), -ENOBUFS);
    failing_call = 0;
    assert_int_equal(fd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(socket_listen__another_is_quicker),
        cmocka_unit_test(socket_reserve__socket_has_no_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
