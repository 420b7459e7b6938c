/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/process_read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const char text[] = "what is read";
static uint64_t token = 4711;

static bool reads(const void *from, void *to, size_t bytes, uint64_t expected)
{
    return br_process_read(getpid(), (uintptr_t)from, to, bytes, (uintptr_t)&token, expected);
}

static void br_process_read__with_the_token(void **state)
{
    char to[sizeof text] = {0};

    (void)state;
    if (!reads(text, to, sizeof to, token))
        skip(); /* a filter of system calls */
    assert_string_equal(to, text);
    assert_false(reads(text, to, sizeof to, token + 1));
}

static void br_process_read__of_what_is_not_there(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char to[sizeof text];

    (void)state;
    assert_ptr_not_equal(two, MAP_FAILED);
    assert_int_equal(munmap(two + page, page), 0);
    assert_false(reads(two + page, to, sizeof to, token));
    assert_false(reads(two + page - 4, to, 8, token)); /* the first half could be read */
    assert_false(
        br_process_read(getpid(), (uintptr_t)text, to, sizeof to, (uintptr_t)(two + page), token));
    assert_int_equal(munmap(two, page), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_process_read__with_the_token),
        cmocka_unit_test(br_process_read__of_what_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
