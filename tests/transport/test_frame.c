/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/frame.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "transport/transport.h"

static struct br_frame_header header;

static int setup(void **state)
{
    (void)state;
    header = (struct br_frame_header){
        .magic = BR_FRAME_MAGIC, .version = BR_FRAME_VERSION, .kind = BR_FRAME_MESSAGE};
    return 0;
}

/* The 16 bytes that a foreign implementation must write. */
static void frame_header__wire_bytes(void **state)
{
    static const uint8_t expected[16] = {0x72, 0x62, 0x01, 0x02, 0x00, 0x10, 0x00, 0x00,
                                         0x07, 0x00, 0x03, 0x00, 0x40, 0x00, 0x00, 0x80};
    static const uint8_t bytes[BR_FRAME_INLINE] = {1, 2, 3}, zeros[BR_FRAME_INLINE];
    struct br_frame frame = {.kind = BR_FRAME_DATA,
                             .length = 4096,
                             .slot = 0x30007,
                             .offset = 0x80000040,
                             .inline_ = bytes};

    (void)state;
    memset(&header, 0xee, sizeof header);
    br_frame_header_fill(&header, &frame);
    assert_memory_equal(&header, expected, sizeof expected);
    assert_memory_equal(header.inline_, bytes, sizeof bytes);
    frame.inline_ = NULL;
    br_frame_header_fill(&header, &frame);
    assert_memory_equal(header.inline_, zeros, sizeof zeros);
    assert_int_equal(offsetof(struct br_frame_header, inline_), sizeof expected);
}

static void frame_check__limits_by_kind(void **state)
{
    (void)state;
    assert_int_equal(br_frame_check(&header, 100, 1000), 0);
    header.length = 100;
    assert_int_equal(br_frame_check(&header, 100, 1000), 0);
    header.length = 101;
    assert_int_equal(br_frame_check(&header, 100, 1000), -EPROTO);
    assert_non_null(strstr(br_error_message(), "101"));
    header.kind = BR_FRAME_DATA;
    assert_int_equal(br_frame_check(&header, 100, 1000), 0);
    header.length = 1001;
    assert_int_equal(br_frame_check(&header, 100, 1000), -EPROTO);
    header.length = UINT32_MAX;
    assert_int_equal(br_frame_check(&header, 100, 1000), -EPROTO);
}

static void frame_check__magic(void **state)
{
    (void)state;
    memcpy(&header, "GET / HTTP/1.1\r\n", 16);
    assert_int_equal(br_frame_check(&header, 100, 1000), -EPROTO);
    assert_non_null(strstr(br_error_message(), "something else"));
}

static void frame_check__version(void **state)
{
    (void)state;
    header.version = BR_FRAME_VERSION + 1;
    assert_int_equal(br_frame_check(&header, 100, 1000), -EPROTO);
    assert_non_null(strstr(br_error_message(), "version 2"));
}

static void frame_check__kind(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 256; kind++) {
        bool known = kind == BR_FRAME_MESSAGE || kind == BR_FRAME_DATA;

        header.kind = (uint8_t)kind;
        assert_int_equal(br_frame_check(&header, 100, 1000), known ? 0 : -EPROTO);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest cases[] = {
        CASE(frame_header__wire_bytes), CASE(frame_check__limits_by_kind), CASE(frame_check__magic),
        CASE(frame_check__version),     CASE(frame_check__kind),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
