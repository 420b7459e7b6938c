/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/model.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"

/* Loads a model from a text. */
static int load(const char *text, struct br_model *model)
{
    char path[] = "/tmp/braid_model_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    int rc = br_model_load(path, model);
    unlink(path);
    return rc;
}

#define NAMES "layer,name,kind,parameters,forward_multiply_adds\n"

static void model_load__layers_in_forward_order(void **state)
{
    (void)state;
    struct br_model model;
    assert_int_equal(load("# Title, of it\n# more\n" NAMES
                          "1,a.0,Conv2d,1792,86704128\r\n\n2,b,Linear,10,20",
                          &model),
                     0);
    assert_string_equal(model.title, "Title, of it");
    assert_int_equal(model.count, 2);
    assert_string_equal(model.layers[0].name, "a.0");
    assert_int_equal(model.layers[0].parameters, 1792);
    assert_int_equal(model.layers[0].multiply_adds, 86704128);
    assert_string_equal(model.layers[1].name, "b");
    assert_int_equal(model.parameters, 1802);
    br_model_free(&model);
}

static void model_load__title_is_the_path_without_a_comment(void **state)
{
    struct br_model model;

    (void)state;
    assert_int_equal(load("#\n" NAMES "1,a,Linear,10,20\n", &model), 0);
    assert_int_equal(strncmp(model.title, "/tmp/braid_model_", 17), 0);
    br_model_free(&model);
}

static void model_load__bad_lines_are_named(void **state)
{
    (void)state;
    static const char *const bad[] = {
        NAMES "1,a,Conv2d,1792\n",
        NAMES "1,a,Conv2d,0,5\n",
        NAMES "one\n",
        NAMES "1,a,Conv2d,x,5\n",
        NAMES "1,a,Conv2d,99999999999999999999,5\n",
    };
    struct br_model model;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(load(bad[i], &model), -EINVAL);
        assert_non_null(strstr(br_error_message(), "line 2"));
        assert_null(model.layers);
    }
    assert_int_equal(load(NAMES, &model), -EINVAL);
    assert_non_null(strstr(br_error_message(), "no layers"));
}

static void model_load__more_layers_than_fit(void **state)
{
    (void)state;
    struct br_model model;
    char *text = calloc(BR_MODEL_LAYERS + 2, 16);
    size_t length = (size_t)sprintf(text, NAMES);
    for (int i = 0; i <= BR_MODEL_LAYERS; i++)
        length += (size_t)sprintf(text + length, "1,a,L,1,1\n");
    assert_int_equal(load(text, &model), -EINVAL);
    assert_non_null(strstr(br_error_message(), "1024"));
    free(text);
}

static void model_load__missing_file(void **state)
{
    (void)state;
    struct br_model model;
    assert_int_equal(br_model_load("/no/such/model.csv", &model), -ENOENT);
    assert_non_null(strstr(br_error_message(), "/no/such/model.csv"));
}

static void model_load__what_cannot_be_read(void **state)
{
    (void)state;
    struct br_model model;
    assert_int_equal(br_model_load("/", &model), -EISDIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_load__layers_in_forward_order),
        cmocka_unit_test(model_load__title_is_the_path_without_a_comment),
        cmocka_unit_test(model_load__bad_lines_are_named),
        cmocka_unit_test(model_load__more_layers_than_fit),
        cmocka_unit_test(model_load__missing_file),
        cmocka_unit_test(model_load__what_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
