/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "transport/region.h"

#include <errno.h>
#include <string.h>

static int refuses; /* the device that does; -1: none */

static int pin(struct br_device *device, struct br_region *region)
{
    if (device->index == refuses)
        return br_error(EFAULT, "no such memory");
    assert_null(region->keys[device->index]);
    region->keys[device->index] = device;
    return 0;
}

static void unpin(struct br_device *device, struct br_region *region)
{
    assert_ptr_equal(region->keys[device->index], device);
    region->keys[device->index] = NULL;
}

static const struct br_transport_ops ops = {.region_register = pin, .region_release = unpin};
static struct br_device nics[3] = {{.ops = &ops, .name = "nic0", .index = 0},
                                   {.ops = &ops, .name = "nic1", .index = 1},
                                   {.ops = &ops, .name = "nic2", .index = 2}};
static struct br_device *const devices[3] = {&nics[0], &nics[1], &nics[2]};

static int n_keys(const struct br_region *region)
{
    int n = 0;

    for (int i = 0; i < 3; i++)
        n += region->keys[i] != NULL;
    return n;
}

static void region_register__with_all_devices(void **state)
{
    struct br_region region = {0};

    (void)state;
    refuses = -1;
    assert_int_equal(br_region_register(devices, 3, &region), 0);
    assert_int_equal(n_keys(&region), 3);
    br_region_release(devices, 3, &region);
    assert_int_equal(n_keys(&region), 0);
}

static void region_register__or_with_none(void **state)
{
    struct br_region region = {0};

    (void)state;
    for (refuses = 0; refuses < 3; refuses++) {
        assert_int_equal(br_region_register(devices, 3, &region), -EFAULT);
        assert_int_equal(n_keys(&region), 0);
        assert_non_null(strstr(br_error_message(), "device nic"));
        assert_non_null(strstr(br_error_message(), nics[refuses].name));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(region_register__with_all_devices),
        cmocka_unit_test(region_register__or_with_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
