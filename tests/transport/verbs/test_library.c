/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs and librdmacm as they are installed here; no device is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "transport/verbs/library.h"

static int setup(void **state)
{
    const struct br_verbs_library *library;

    if (br_verbs_library(&library)) {
        print_message("%s\n", br_error_message());
        return -1;
    }
    *state = (void *)(uintptr_t)library;
    return 0;
}

static void library__is_one_for_all(void **state)
{
    const struct br_verbs_library *again;

    assert_int_equal(br_verbs_library(&again), 0);
    assert_ptr_equal(again, *state);
}

static void library__no_needed_function_lacks(void **state)
{
    const struct br_verbs_library *library = *state;

#define CHECK(field, symbol) assert_true(library->field != NULL);
    BR_VERBS_SYMBOLS(CHECK)
    if (!*library->cm_why_not) {
        BR_VERBS_CM_SYMBOLS(CHECK)
    }
}

/* The right functions under the right names: those that say something without a device. */
static void library__functions_are_the_named_ones(void **state)
{
    const struct br_verbs_library *library = *state;

    assert_string_equal(library->wc_status_str(IBV_WC_RNR_RETRY_EXC_ERR),
                        "RNR retry counter exceeded");
    assert_string_equal(library->port_state_str(IBV_PORT_ACTIVE), "active");
    assert_string_equal(library->event_type_str(IBV_EVENT_SM_CHANGE), "SM change");
    if (!*library->cm_why_not)
        assert_string_equal(library->cm_event_str(RDMA_CM_EVENT_ESTABLISHED),
                            "RDMA_CM_EVENT_ESTABLISHED");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library__is_one_for_all),
        cmocka_unit_test(library__no_needed_function_lacks),
        cmocka_unit_test(library__functions_are_the_named_ones),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
