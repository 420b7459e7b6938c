/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing a GID, from tables as real drivers make them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/says.h"
#include "transport/verbs/gid.h"

static const struct br_gid_wish any = {.index = -1};

static struct br_gid entry(int index, const char *address, enum br_gid_type type,
                           const char *netdev)
{
    struct br_gid gid = {.index = index, .type = type};

    assert_true(br_gid_parse(address, gid.raw));
    memcpy(gid.netdev, netdev, strlen(netdev));
    return gid;
}

/* Soft-RoCE: 0 is link-local. mlx5: every address twice, version 1 first. */
#define RXE                                                                                        \
    {                                                                                              \
        entry(0, "fe80::ff:fe00:1", BR_GID_ROCE_V2, "eth0"),                                       \
            entry(1, "10.0.0.1", BR_GID_ROCE_V2, "eth0")                                           \
    }
#define MLX5                                                                                       \
    {                                                                                              \
        entry(0, "fe80::ff:fe00:1", BR_GID_ROCE_V1, "ens1f0"),                                     \
            entry(1, "fe80::ff:fe00:1", BR_GID_ROCE_V2, "ens1f0"),                                 \
            entry(2, "10.0.0.1", BR_GID_ROCE_V1, "ens1f0"),                                        \
            entry(3, "10.0.0.1", BR_GID_ROCE_V2, "ens1f0"),                                        \
            entry(4, "fd00::1", BR_GID_ROCE_V1, "ens1f0"),                                         \
            entry(5, "fd00::1", BR_GID_ROCE_V2, "ens1f0")                                          \
    }

static void parse__text_gives_the_same_back(void **state)
{
    static const char *const good[] = {"10.1.2.3", "fd00::1", "fe80::1", "2001:db8::7"};
    uint8_t raw[BR_GID_BYTES];
    char text[BR_GID_TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(br_gid_parse(good[i], raw));
        assert_string_equal(br_gid_text(raw, text), good[i]);
    }
    assert_true(br_gid_parse("::ffff:10.1.2.3", raw));
    assert_string_equal(br_gid_text(raw, text), "10.1.2.3");
    assert_false(br_gid_parse("rxe0", raw));
    assert_false(br_gid_parse("10.1.2", raw));
    assert_false(br_gid_parse("", raw));
}

static void choose__rxe_takes_ipv4_and_not_the_first(void **state)
{
    struct br_gid table[] = RXE;
    struct br_gid_choice choice;

    (void)state;
    assert_int_equal(br_gid_choose(table, 2, &any, &choice), 0);
    assert_int_equal(choice.entry[BR_GID_IPV4], 1);
    assert_int_equal(choice.entry[BR_GID_IPV6], -1);
    assert_int_equal(choice.entry[BR_GID_NATIVE], -1);
    assert_string_equal(
        choice.message,
        "GID 1 (10.0.0.1, RoCE v2, eth0); not 0 (fe80::ff:fe00:1, RoCE v2, eth0): link-local");
}

static void choose__mlx5_takes_version_two_of_both_families(void **state)
{
    struct br_gid table[] = MLX5;
    struct br_gid_choice choice;

    (void)state;
    assert_int_equal(br_gid_choose(table, 6, &any, &choice), 0);
    assert_int_equal(choice.entry[BR_GID_IPV4], 3);
    assert_int_equal(choice.entry[BR_GID_IPV6], 5);
    assert_says(choice.message, "2 (10.0.0.1, RoCE v1, ens1f0)|routed");
}

static void choose__numbers_need_not_be_dense(void **state)
{
    struct br_gid table[] = {entry(200, "10.0.0.9", BR_GID_ROCE_V2, "eth0"),
                             entry(7, "10.0.0.1", BR_GID_ROCE_V2, "eth0")};
    struct br_gid_choice choice;

    (void)state;
    assert_int_equal(br_gid_choose(table, 2, &any, &choice), 0);
    assert_int_equal(table[choice.entry[BR_GID_IPV4]].index, 7);
    assert_says(choice.message, "200 (10.0.0.9, RoCE v2, eth0)|before");
}

static void choose__nothing_routable_says_why(void **state)
{
    static const char *const bad[] = {"fe80::1",   "febf::1", "169.254.3.4",
                                      "127.0.0.1", "::1",     "224.0.0.1",
                                      "ff02::1",   "0.0.0.0", "255.255.255.255"};
    struct br_gid_choice choice;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct br_gid table[] = {entry(0, bad[i], BR_GID_ROCE_V2, "eth0")};
        assert_int_equal(br_gid_choose(table, 1, &any, &choice), -EADDRNOTAVAIL);
        assert_string_equal(br_error_message(), choice.message);
        assert_says(choice.message, "GID|not 0 (");
    }
    assert_int_equal(br_gid_choose(NULL, 0, &any, &choice), -EADDRNOTAVAIL);
    assert_says(choice.message, "port|GIDs");
}

static void choose__empty_and_foreign_entries_do_not_count(void **state)
{
    struct br_gid far[] = {entry(256, "10.0.0.9", BR_GID_ROCE_V2, "eth0")};
    struct br_gid table[] = {{.index = 0, .type = BR_GID_ROCE_V2},
                             entry(1, "10.0.0.1", BR_GID_ROCE_V2, ""),
                             entry(2, "10.0.0.2", (enum br_gid_type)9, "eth0")};
    struct br_gid_choice choice;

    (void)state;
    table[1].foreign = true;
    assert_int_equal(br_gid_choose(far, 1, &any, &choice), -EADDRNOTAVAIL);
    assert_int_equal(br_gid_choose(table, 3, &any, &choice), -EADDRNOTAVAIL);
    assert_says(choice.message,
                "not 0 (::, RoCE v2): empty|not 1 (10.0.0.1, RoCE v2)|namespace|not 2 "
                "(10.0.0.2, of an unknown type, eth0)");
}

static void choose__address_and_interface_asked_for(void **state)
{
    struct br_gid table[] = {entry(0, "10.0.0.1", BR_GID_ROCE_V2, "eth0"),
                             entry(1, "10.0.7.1", BR_GID_ROCE_V2, "eth0.7"),
                             entry(2, "10.0.0.2", BR_GID_ROCE_V2, "eth0")};
    struct br_gid_wish wish = {.index = -1};
    struct br_gid_choice choice;
    uint8_t raw[BR_GID_BYTES];

    (void)state;
    wish.netdev = "eth0.7";
    assert_int_equal(br_gid_choose(table, 3, &wish, &choice), 0);
    assert_int_equal(choice.entry[BR_GID_IPV4], 1);
    wish.netdev = NULL;
    wish.address = raw;
    assert_true(br_gid_parse("10.0.0.2", raw));
    assert_int_equal(br_gid_choose(table, 3, &wish, &choice), 0);
    assert_int_equal(choice.entry[BR_GID_IPV4], 2);
    assert_true(br_gid_parse("10.0.0.3", raw));
    assert_int_equal(br_gid_choose(table, 3, &wish, &choice), -EADDRNOTAVAIL);
}

static void choose__interface_of_the_port_goes_before_its_vlans(void **state)
{
    struct br_gid table[] = {entry(0, "10.0.7.1", BR_GID_ROCE_V2, "eth0.7"),
                             entry(1, "10.0.0.1", BR_GID_ROCE_V2, "eth0")};
    struct br_gid_wish wish = {.index = -1, .main_netdev = "eth0"};
    struct br_gid_choice choice;

    (void)state;
    assert_int_equal(br_gid_choose(table, 2, &wish, &choice), 0);
    assert_int_equal(choice.entry[BR_GID_IPV4], 1);
    assert_int_equal(br_gid_choose(table, 1, &wish, &choice), 0);
    assert_int_equal(choice.entry[BR_GID_IPV4], 0);
}

static void choose__named_index_goes_before_all_rules(void **state)
{
    struct br_gid table[] = MLX5;
    struct br_gid_wish wish = {.index = 1, .index_from = "BRAID_GID_INDEX"};
    struct br_gid_choice choice;

    (void)state;
    assert_int_equal(br_gid_choose(table, 6, &wish, &choice), 0);
    assert_int_equal(choice.entry[BR_GID_IPV4], -1);
    assert_int_equal(choice.entry[BR_GID_IPV6], 1);
    assert_non_null(strstr(choice.message, "as BRAID_GID_INDEX says"));
    wish.index = 2;
    assert_int_equal(br_gid_choose(table, 6, &wish, &choice), 0);
    assert_int_equal(choice.entry[BR_GID_IPV4], 2);
    wish.index = 6;
    assert_int_equal(br_gid_choose(table, 6, &wish, &choice), -EINVAL);
    assert_says(br_error_message(), "BRAID_GID_INDEX|GID 6|`braid info`");
}

static void choose__infiniband_takes_the_subnet_gid(void **state)
{
    struct br_gid table[] = {entry(0, "fe80::2:c903:0:1", BR_GID_INFINIBAND, ""),
                             entry(1, "fe80::2:c903:0:2", BR_GID_INFINIBAND, "")};
    struct br_gid_wish wish = {.infiniband = true, .index = -1};
    struct br_gid_choice choice;

    (void)state;
    assert_int_equal(br_gid_choose(table, 2, &wish, &choice), 0);
    assert_int_equal(choice.entry[BR_GID_NATIVE], 0);
    assert_int_equal(choice.entry[BR_GID_IPV6], -1);
}

static void choose__many_entries_fit_into_the_words(void **state)
{
    struct br_gid table[64];
    struct br_gid_choice choice;

    (void)state;
    for (int i = 0; i < 64; i++)
        table[i] =
            entry(i, "fe80:1234:5678:9abc:def0:1234:5678:9abc", BR_GID_ROCE_V1, "enp193s0f1np1");
    assert_int_equal(br_gid_choose(table, 64, &any, &choice), -EADDRNOTAVAIL);
    assert_true(strlen(choice.message) < BR_GID_MESSAGE);
}

/* What each of two ends takes. */
static int agree(const struct br_gid *ours, int n_ours, const struct br_gid *theirs, int n_theirs,
                 enum br_gid_family *family)
{
    struct br_gid_choice mine, peer;
    struct br_gid_set offer;

    br_gid_choose(ours, n_ours, &any, &mine);
    br_gid_choose(theirs, n_theirs, &any, &peer);
    br_gid_set(theirs, &peer, &offer);
    return br_gid_agree(ours, &mine, &offer, family);
}

static void agree__same_family_at_both_ends(void **state)
{
    struct br_gid both[] = MLX5;
    struct br_gid six[] = {entry(0, "fe80::1", BR_GID_ROCE_V2, "eth0"),
                           entry(1, "fd00::2", BR_GID_ROCE_V2, "eth0")};
    struct br_gid four[] = RXE;
    enum br_gid_family family, other;

    (void)state;
    assert_int_equal(agree(both, 6, both, 6, &family), 3);
    assert_int_equal(family, BR_GID_IPV4);
    assert_int_equal(agree(both, 6, six, 2, &family), 5);
    assert_int_equal(agree(six, 2, both, 6, &other), 1);
    assert_int_equal(family, BR_GID_IPV6);
    assert_int_equal(other, BR_GID_IPV6);
    assert_int_equal(agree(four, 2, six, 2, &family), -EADDRNOTAVAIL);
    assert_says(br_error_message(), "IPv4|peer's of IPv6");
}

static void agree__types_must_be_equal(void **state)
{
    struct br_gid table[] = MLX5;
    struct br_gid_wish first = {.index = 2, .index_from = "BRAID_GID_INDEX"};
    struct br_gid_choice ours, theirs;
    struct br_gid_set offer;
    enum br_gid_family family;

    (void)state;
    assert_int_equal(br_gid_choose(table, 6, &first, &ours), 0);
    assert_int_equal(br_gid_choose(table, 6, &any, &theirs), 0);
    br_gid_set(table, &theirs, &offer);
    assert_int_equal(br_gid_agree(table, &ours, &offer, &family), -EADDRNOTAVAIL);
    assert_says(br_error_message(), "RoCE v1|peer RoCE v2");
}

static void agree__an_empty_or_strange_set_is_an_error(void **state)
{
    struct br_gid table[] = RXE;
    struct br_gid_choice ours;
    struct br_gid_set offer = {.type = {200, 200, 200}};
    enum br_gid_family family;

    (void)state;
    assert_int_equal(br_gid_choose(table, 2, &any, &ours), 0);
    assert_int_equal(br_gid_agree(table, &ours, &offer, &family), -EADDRNOTAVAIL);
    assert_says(br_error_message(), "peer's|nothing");
    memset(offer.raw, 0x55, sizeof offer.raw);
    assert_int_equal(br_gid_agree(table, &ours, &offer, &family), -EADDRNOTAVAIL);
    assert_says(br_error_message(), "peer|unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__text_gives_the_same_back),
        cmocka_unit_test(choose__rxe_takes_ipv4_and_not_the_first),
        cmocka_unit_test(choose__mlx5_takes_version_two_of_both_families),
        cmocka_unit_test(choose__numbers_need_not_be_dense),
        cmocka_unit_test(choose__nothing_routable_says_why),
        cmocka_unit_test(choose__empty_and_foreign_entries_do_not_count),
        cmocka_unit_test(choose__address_and_interface_asked_for),
        cmocka_unit_test(choose__interface_of_the_port_goes_before_its_vlans),
        cmocka_unit_test(choose__named_index_goes_before_all_rules),
        cmocka_unit_test(choose__infiniband_takes_the_subnet_gid),
        cmocka_unit_test(choose__many_entries_fit_into_the_words),
        cmocka_unit_test(agree__same_family_at_both_ends),
        cmocka_unit_test(agree__types_must_be_equal),
        cmocka_unit_test(agree__an_empty_or_strange_set_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
