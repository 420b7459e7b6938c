/* SPDX-License-Identifier: BSD-3-Clause */
/* The one back end of a job, from what its ranks have. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/comm/backend.h"
#include "collectives/comm/settings.h"
#include "tests/says.h"

#define V4 (1 << BR_GID_IPV4)
#define V6 (1 << BR_GID_IPV6)

static void is_verbs__all_ranks_or_none(void **state)
{
    static const struct {
        struct br_verbs_capabilities offers[3];
        const char *why; /* NULL: verbs */
    } cases[] = {
        {{{1, 0, 0, V4, ""}, {1, 0, 0, V4 | V6, ""}, {1, 0, 0, V4, ""}}, NULL},
        {{{1, 0, 1, 0, ""}, {1, 0, 1, 0, ""}, {1, 0, 1, 0, ""}}, NULL},
        /* who insists fits with all */
        {{{1, 1, 0, 0, ""}, {1, 0, 1, 0, ""}, {1, 0, 1, 0, ""}}, NULL},
        {{{1, 0, 0, V4, ""}, {1, 0, 0, V4, ""}, {0, 0, 0, 0, "it has none"}}, "rank 2|none"},
        {{{0, 0, 0, 0, "BRAID_BACKEND is shm"}, {1, 0, 0, V4, ""}, {1, 0, 0, V4, ""}},
         "rank 0|BRAID_BACKEND|shm"},
        {{{1, 0, 0, V4, ""}, {1, 0, 1, 0, ""}, {1, 0, 0, V4, ""}},
         "rank 0 has RDMA over Ethernet|rank 1 over InfiniBand"},
        {{{1, 0, 0, V4, ""}, {1, 0, 0, V4 | V6, ""}, {1, 0, 0, V6, ""}}, "rank 2|GID"},
    };
    char why[120];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(br_backend_is_verbs(cases[i].offers, 3, why, sizeof why), !cases[i].why);
        if (cases[i].why)
            assert_says(why, cases[i].why);
    }
}

/* Words of another process need not end. */
static void is_verbs__words_without_an_end(void **state)
{
    struct br_verbs_capabilities endless = {0};
    char why[300];

    (void)state;
    memset(endless.why_not, 'x', sizeof endless.why_not);
    assert_false(br_backend_is_verbs(&endless, 1, why, sizeof why));
    assert_int_equal(strlen(why), sizeof endless.why_not + strlen("rank 0: "));
}

static void query__not_in_this_build(void **state)
{
    struct br_settings s = {.backend = "carrier-pigeon"};
    struct br_verbs_capabilities offer;

    (void)state;
    assert_int_equal(br_backend_query(&s, &offer), -EOPNOTSUPP);
    assert_says(br_error_message(), "BRAID_BACKEND|carrier-pigeon|build");
}

static void offer__settles_what_others_cannot_change(void **state)
{
    static const struct {
        const char *backend, *network;
        bool usable, insists;
    } cases[] = {
        {"tcp", "tcp", false, false}, {"udp", "udp", false, false},  {"verbs", "verbs", true, true},
        {"shm", "tcp", false, false}, {"auto", "tcp", false, false}, /* one host: loopback */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct br_settings s = {.environment = {.size = 2, .local_size = 2, .local_known = true}};
        struct br_verbs_capabilities offer;

        strcpy(s.backend, cases[i].backend);
        assert_int_equal(br_backend_query(&s, &offer), 0);
        assert_string_equal(s.network, cases[i].network);
        assert_int_equal(offer.usable, cases[i].usable);
        assert_int_equal(offer.insists, cases[i].insists);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_verbs__all_ranks_or_none),
        cmocka_unit_test(is_verbs__words_without_an_end),
        cmocka_unit_test(query__not_in_this_build),
        cmocka_unit_test(offer__settles_what_others_cannot_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
