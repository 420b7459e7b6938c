/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/sized.h"
#include "tests/says.h"

/* A struct as versions of it came one after the other. */
struct first {
    size_t struct_size;
    uint64_t a;
};

struct known {
    size_t struct_size;
    uint64_t a, b;
};

struct newer {
    size_t struct_size;
    uint64_t a, b, c;
};

static int reads(const void *given, struct known *copy)
{
    memset(copy, 0xee, sizeof *copy);
    return br_sized_read("call", "thing", given, sizeof(struct first), sizeof(struct known), copy);
}

static void sized_read__nothing(void **state)
{
    struct known copy;

    (void)state;
    assert_int_equal(reads(NULL, &copy), 0);
    assert_true(!copy.struct_size && !copy.a && !copy.b);
}

static void sized_read__older_and_same(void **state)
{
    struct known given = {.a = 1, .b = 2}, copy;

    (void)state;
    assert_int_equal(reads(&given, &copy), 0);
    assert_true(copy.a == 1 && copy.b == 0); /* 0: as of the first version */
    given.struct_size = sizeof(struct first);
    assert_int_equal(reads(&given, &copy), 0);
    assert_true(copy.a == 1 && copy.b == 0);
    given.struct_size = sizeof(struct first) + 1; /* any size counts, to the byte */
    given.b = 0x1111111111111111;
    assert_int_equal(reads(&given, &copy), 0);
    assert_int_equal(((uint8_t *)&copy.b)[0], 0x11);
    assert_int_equal(((uint8_t *)&copy.b)[1], 0);
    given.struct_size = sizeof given;
    assert_int_equal(reads(&given, &copy), 0);
    assert_memory_equal(&copy, &given, sizeof copy);
}

static void sized_read__newer(void **state)
{
    struct newer given = {.struct_size = sizeof given, .a = 1, .b = 2};
    struct known copy;

    (void)state;
    assert_int_equal(reads(&given, &copy), 0);
    assert_true(copy.a == 1 && copy.b == 2);
    given.c = 1ull << 56; /* the last byte of all, or the first of the last field */
    assert_int_equal(reads(&given, &copy), -EINVAL);
    assert_says(br_error_message(), "call|thing|32 bytes|24|newer");
}

static void sized_read__no_size(void **state)
{
    static const size_t wrong[] = {1, sizeof(size_t) - 1, 4097, SIZE_MAX};
    struct known given = {0}, copy;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        given.struct_size = wrong[i];
        assert_int_equal(reads(&given, &copy), -EINVAL);
        assert_says(br_error_message(), "call|thing|struct_size");
    }
}

static void sized_fits__in_place(void **state)
{
    struct known given = {0};

    (void)state;
    assert_false(br_sized_fits(&given, sizeof(struct first), sizeof given));
    assert_true(br_sized_fits(&given, sizeof given, sizeof given));
    given.struct_size = sizeof given;
    assert_true(br_sized_fits(&given, sizeof(struct first), sizeof given));
    given.struct_size++;
    assert_false(br_sized_fits(&given, sizeof given, sizeof given));
}

static void sized_write__as_much_as_there_is_room_for(void **state)
{
    const struct known full = {.struct_size = 77, .a = 1, .b = 2};
    struct newer out = {.a = 9, .b = 9, .c = 9};
    size_t bytes;

    (void)state;
    assert_int_equal(br_sized_room("call", "thing", &out, sizeof(struct first), &bytes), 0);
    assert_int_equal(bytes, sizeof(struct first));
    br_sized_write(&out, bytes, &full, sizeof full);
    assert_true(out.struct_size == 0 && out.a == 1 && out.b == 9 && out.c == 9);
    out.struct_size = sizeof out;
    assert_int_equal(br_sized_room("call", "thing", &out, sizeof(struct first), &bytes), 0);
    br_sized_write(&out, bytes, &full, sizeof full);
    assert_true(out.struct_size == sizeof out && out.a == 1 && out.b == 2 && out.c == 9);
    out.struct_size = 3;
    assert_int_equal(br_sized_room("call", "thing", &out, sizeof(struct first), &bytes), -EINVAL);
    assert_says(br_error_message(), "call|thing|struct_size|3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sized_read__nothing),
        cmocka_unit_test(sized_read__older_and_same),
        cmocka_unit_test(sized_read__newer),
        cmocka_unit_test(sized_read__no_size),
        cmocka_unit_test(sized_fits__in_place),
        cmocka_unit_test(sized_write__as_much_as_there_is_room_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
