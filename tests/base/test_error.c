/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static void error__returns_negative_and_keeps_words(void **state)
{
    (void)state;
    assert_int_equal(br_error(EINVAL, "rank %d of %d", 3, 4), -EINVAL);
    assert_string_equal(br_error_message(), "rank 3 of 4");
}

static void error__cuts_long_words(void **state)
{
    char text[2 * BR_ERROR_BYTES];

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    br_error(EIO, "%s", text);
    assert_int_equal(strlen(br_error_message()), BR_ERROR_BYTES - 1);
}

static void error__may_quote_the_words_before(void **state)
{
    (void)state;
    br_error(EIO, "inner");
    br_error(EIO, "outer (%s)", br_error_message());
    assert_string_equal(br_error_message(), "outer (inner)");
}

static void error_prefix__stands_in_front(void **state)
{
    (void)state;
    br_error(EPIPE, "closed");
    assert_int_equal(br_error_prefix(-EPIPE, "device %s: ", "eth0"), -EPIPE);
    assert_string_equal(br_error_message(), "device eth0: closed");
}

static void *other_thread(void *seen)
{
    br_error(EIO, "other");
    *(int *)seen = strcmp(br_error_message(), "other") == 0;
    return NULL;
}

static void error_message__belong_to_the_thread(void **state)
{
    pthread_t thread;
    int seen = 0;

    (void)state;
    br_error(EIO, "mine");
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &seen), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(seen);
    assert_string_equal(br_error_message(), "mine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error__returns_negative_and_keeps_words),
        cmocka_unit_test(error__cuts_long_words),
        cmocka_unit_test(error__may_quote_the_words_before),
        cmocka_unit_test(error_prefix__stands_in_front),
        cmocka_unit_test(error_message__belong_to_the_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
