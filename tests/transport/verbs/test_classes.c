/* SPDX-License-Identifier: BSD-3-Clause */
/* Which service level and traffic class a priority has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "tests/says.h"
#include "transport/verbs/classes.h"

static struct br_verbs_class class_at(const char *level, const char *traffic, unsigned n,
                                      int32_t priority)
{
    struct br_verbs_classes classes;

    if (br_verbs_classes_parse(level, traffic, &classes))
        fail_msg("%s", br_error_message());
    assert_int_equal(classes.n, n);
    assert_int_equal(classes.of[n - 1].from, INT32_MIN);
    return classes.of[br_verbs_class_of(&classes, priority)];
}

static void check(struct br_verbs_class class, int level, int traffic)
{
    assert_int_equal(class.service_level, level);
    assert_int_equal(class.traffic_class, traffic);
}

static void parse__one_for_all(void **state)
{
    (void)state;
    check(class_at(NULL, NULL, 1, 0), 0, 0);
    check(class_at("", "", 1, INT32_MIN), 0, 0);
    check(class_at("15", NULL, 1, INT32_MAX), 15, 0);
    check(class_at(NULL, "255", 1, -1), 0, 255);
}

static void parse__by_priority(void **state)
{
    static const char list[] = "32,-5:0,1:104,10:184";

    (void)state;
    check(class_at("3", list, 4, INT32_MIN), 3, 32);
    check(class_at("3", list, 4, -6), 3, 32);
    check(class_at("3", list, 4, -5), 3, 0);
    check(class_at("3", list, 4, 0), 3, 0);
    check(class_at("3", list, 4, 1), 3, 104);
    check(class_at("3", list, 4, 9), 3, 104);
    check(class_at("3", list, 4, 10), 3, 184);
    check(class_at("3", list, 4, INT32_MAX), 3, 184);
}

/* Both change, at the same priority or at others. */
static void parse__two_lists(void **state)
{
    (void)state;
    check(class_at("0,1:5", "8,1:104", 2, 0), 0, 8);
    check(class_at("0,1:5", "8,1:104", 2, 1), 5, 104);
    check(class_at("0,1:5", "8,7:104", 3, 6), 5, 8);
    check(class_at("0,1:5", "8,7:104", 3, 7), 5, 104);
    check(class_at("0,2147483647:1", NULL, 2, INT32_MAX), 1, 0);
    check(class_at("0,-2147483647:1", NULL, 2, INT32_MIN), 0, 0);
}

static void parse__bad(void **state)
{
    static const char *const bad[] = {"x",
                                      "-1",
                                      "256",
                                      " 1",
                                      "1 ",
                                      "1,",
                                      ",1",
                                      "1,2",
                                      "1:2",
                                      "1,2:",
                                      "1,:2",
                                      "1,2:3,2:4",
                                      "1,3:1,2:1",
                                      "1,2:-3",
                                      "1,2:256",
                                      "0x10",
                                      "1,99999999999:2",
                                      "1,-2147483648:2",
                                      "0,1:1,2:2,3:3,4:4"};
    struct br_verbs_classes classes;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (br_verbs_classes_parse(NULL, bad[i], &classes) != -EINVAL)
            fail_msg("taken: %s", bad[i]);
        assert_non_null(strstr(br_error_message(), bad[i]));
        assert_non_null(strstr(br_error_message(), "BRAID_TRAFFIC_CLASS"));
    }
    assert_int_equal(br_verbs_classes_parse("16", NULL, &classes), -EINVAL);
    assert_says(br_error_message(), "BRAID_SERVICE_LEVEL=16|from 0 to 15");
    /* Each by itself is short enough. */
    assert_int_equal(br_verbs_classes_parse("0,1:1,3:3,5:5", "0,2:2,4:4", &classes), -EINVAL);
    assert_non_null(strstr(br_error_message(), "more than 4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__one_for_all),
        cmocka_unit_test(parse__by_priority),
        cmocka_unit_test(parse__two_lists),
        cmocka_unit_test(parse__bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
