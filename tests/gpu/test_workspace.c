/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/workspace.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "gpu/copier.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"

#define GRANULE ((size_t)BR_WORKSPACE_GRANULE)

static struct br_copier *copier;
static unsigned stays;

static int fresh(void **state)
{
    (void)state;
    stays = 0;
    fake_fresh_gpu();
    return br_copier_create(&copier) || br_copier_open(copier, 1) != 1;
}

static int leave(void **state)
{
    (void)state;
    br_copier_destroy(copier);
    fake_leave_gpu(stays);
    return 0;
}

static void take__whole_granules_in_a_row(void **state)
{
    struct br_workspace *workspace;
    uint8_t *base, *a, *b, *c;

    (void)state;
    assert_int_equal(br_workspace_create(copier, 1, &workspace), 0);
    base = br_workspace_memory(workspace);
    a = br_workspace_take(workspace, GRANULE + 1);
    b = br_workspace_take(workspace, 1);
    c = br_workspace_take(workspace, BR_WORKSPACE_BYTES - 3 * GRANULE);
    assert_ptr_equal(a, base);
    assert_ptr_equal(b, base + 2 * GRANULE);
    assert_ptr_equal(c, base + 3 * GRANULE);
    assert_null(br_workspace_take(workspace, 1));
    br_workspace_put(workspace, b, 1);
    assert_null(br_workspace_take(workspace, GRANULE + 1)); /* it has room for half of that */
    br_workspace_put(workspace, a, GRANULE + 1);
    assert_ptr_equal(br_workspace_take(workspace, 3 * GRANULE), base);
    assert_null(br_workspace_take(workspace, 1));
    br_workspace_put(workspace, base, 3 * GRANULE);
    br_workspace_put(workspace, c, BR_WORKSPACE_BYTES - 3 * GRANULE);
    assert_ptr_equal(br_workspace_take(workspace, BR_WORKSPACE_BYTES), base);
    assert_null(br_workspace_take(workspace, (size_t)BR_WORKSPACE_BYTES + 1));
    br_workspace_destroy(workspace);
}

static void create__without_memory(void **state)
{
    struct br_workspace *workspace;
    unsigned left = fake_cuda_left();

    (void)state;
    fake_cuda()->bytes = BR_WORKSPACE_BYTES / 2;
    assert_int_equal(br_workspace_create(copier, 1, &workspace), -ENOMEM);
    assert_non_null(strstr(br_error_message(), "of GPU 0 for NICs"));
    fake_cuda()->bytes = 1u << 30;
    strcpy(fake_cuda()->fail, "cuPointerGetAttributes"); /* what its allocation is */
    fake_cuda()->fail_result = BR_CUDA_INVALID_VALUE;
    assert_int_equal(br_workspace_create(copier, 1, &workspace), -EINVAL);
    fake_cuda()->fail[0] = 0;
    assert_int_equal(fake_cuda_left(), left);
}

/* Freeing would wait for ever. */
static void destroy__on_a_lost_gpu(void **state)
{
    struct br_workspace *workspace;

    (void)state;
    assert_int_equal(br_workspace_create(copier, 1, &workspace), 0);
    br_copier_set_all_lost(copier);
    br_workspace_destroy(workspace);
    stays = 3; /* with what the copier keeps */
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(take__whole_granules_in_a_row, fresh, leave),
        cmocka_unit_test_setup_teardown(create__without_memory, fresh, leave),
        cmocka_unit_test_setup_teardown(destroy__on_a_lost_gpu, fresh, leave),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
