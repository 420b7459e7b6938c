/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "tests/says.h"
#include "transport/inet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static union br_inet_address v4(const char *ip, uint16_t port)
{
    union br_inet_address address = {.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};

    assert_int_equal(inet_pton(AF_INET, ip, &address.v4.sin_addr), 1);
    return address;
}

static union br_inet_address v6(const char *ip, uint16_t port)
{
    union br_inet_address address = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};

    assert_int_equal(inet_pton(AF_INET6, ip, &address.v6.sin6_addr), 1);
    return address;
}

static void inet_text__both_families(void **state)
{
    union br_inet_address four = v4("10.0.0.1", 77), six = v6("fd00::1", 65535);
    char text[64];

    (void)state;
    br_inet_text(&four, true, text, sizeof text);
    assert_string_equal(text, "10.0.0.1:77");
    br_inet_text(&four, false, text, sizeof text);
    assert_string_equal(text, "10.0.0.1");
    br_inet_text(&six, true, text, sizeof text);
    assert_string_equal(text, "[fd00::1]:65535");
    br_inet_text(&six, false, text, sizeof text);
    assert_string_equal(text, "fd00::1");
}

static void set_port__both_families(void **state)
{
    union br_inet_address four = v4("10.0.0.1", 1), six = v6("fd00::1", 1);

    (void)state;
    br_inet_set_port(&four, 0x1234);
    br_inet_set_port(&six, 0x1234);
    assert_int_equal(four.v4.sin_port, htons(0x1234));
    assert_int_equal(six.v6.sin6_port, htons(0x1234));
}

static void pack__and_back(void **state)
{
    union br_inet_address ours[2] = {v4("10.1.2.3", 4711), v6("fd00::abcd", 815)};

    (void)state;
    for (int i = 0; i < 2; i++) {
        union br_inet_address back;
        struct br_address packed;

        br_inet_pack(&ours[i], &packed);
        assert_int_equal(br_inet_unpack(&packed, &back), 0);
        assert_int_equal(br_inet_bytes(&back), br_inet_bytes(&ours[i]));
        assert_memory_equal(&back, &ours[i], br_inet_bytes(&back));
    }
}

/* Both ends of a job must agree on these bytes. */
static void pack__bytes(void **state)
{
    static const uint8_t expected[19] = {4, 0x12, 0x67, 10, 1, 2, 3};
    union br_inet_address four = v4("10.1.2.3", 0x1267);
    struct br_address packed;

    (void)state;
    br_inet_pack(&four, &packed);
    assert_int_equal(packed.bytes, sizeof expected);
    assert_memory_equal(packed.data, expected, sizeof expected);
}

static void unpack__refuses_what_is_no_address(void **state)
{
    union br_inet_address four = v4("10.1.2.3", 1), out;
    struct br_address packed;

    (void)state;
    br_inet_pack(&four, &packed);
    packed.bytes--;
    assert_int_equal(br_inet_unpack(&packed, &out), -EINVAL);
    packed.bytes++;
    packed.data[0] = 5;
    assert_int_equal(br_inet_unpack(&packed, &out), -EINVAL);
    assert_says(br_error_message(), "IP");
}

static void unpack_peer__of_the_other_family(void **state)
{
    union br_inet_address four = v4("10.1.2.3", 1), six = {.v6 = {.sin6_family = AF_INET6}}, out;
    struct br_address packed;

    (void)state;
    br_inet_pack(&four, &packed);
    assert_int_equal(br_inet_unpack_peer(&packed, &four, &out), 0);
    assert_int_equal(br_inet_unpack_peer(&packed, &six, &out), -EAFNOSUPPORT);
    assert_says(br_error_message(), "peer's|IPv4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inet_text__both_families),
        cmocka_unit_test(set_port__both_families),
        cmocka_unit_test(pack__and_back),
        cmocka_unit_test(pack__bytes),
        cmocka_unit_test(unpack__refuses_what_is_no_address),
        cmocka_unit_test(unpack_peer__of_the_other_family),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
