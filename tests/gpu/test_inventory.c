/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/inventory.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "gpu/driver.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"
#include "tests/says.h"

static struct br_gpu_info gpus[BR_GPUS];

static int fresh(void **state)
{
    (void)state;
    fake_fresh();
    return 0;
}

static void inventory__says_what_there_is(void **state)
{
    (void)state;
    fake_cuda()->devices = 2;
    assert_int_equal(br_gpu_inventory(gpus), 2);
    assert_string_equal(gpus[1].name, "fake GPU 1");
    assert_string_equal(gpus[1].pci, "fa0e:02:00.0");
    assert_int_equal(gpus[1].capability, 90);
    assert_int_equal(gpus[1].numa_node, -1);
    assert_true(gpus[1].dmabuf);
    assert_string_equal(gpus[1].copies, "");
    assert_string_equal(gpus[1].sharing, "");
    assert_int_equal(fake_cuda_left(), 0);
}

static void inventory__says_what_fails(void **state)
{
    (void)state;
    fake_cuda()->no_dmabuf = true;
    strcpy(fake_cuda()->fail, "cuMemcpyDtoHAsync_v2");
    fake_cuda()->fail_result = BR_CUDA_ILLEGAL_ADDRESS;
    assert_int_equal(br_gpu_inventory(gpus), 1);
    assert_false(gpus[0].dmabuf);
    assert_says(gpus[0].copies, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

static void inventory__without_a_gpu(void **state)
{
    (void)state;
    fake_cuda()->devices = 0;
    assert_int_equal(br_gpu_inventory(gpus), -ENODEV);
}

static void make(const char *root, const char *folder)
{
    char command[400];

    snprintf(command, sizeof command, "mkdir -p %.100s/%.200s", root, folder);
    assert_int_equal(system(command), 0);
}

static void group(const char *root, int number, const char *type)
{
    char path[200];
    FILE *file;

    snprintf(path, sizeof path, "sys/kernel/iommu_groups/%d", number);
    make(root, path);
    snprintf(path, sizeof path, "%.100s/sys/kernel/iommu_groups/%d/type", root, number);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", type);
    fclose(file);
}

static void peer_memory__as_sysfs_says(void **state)
{
    char root[] = "/tmp/braid_survey_XXXXXX", text[256], command[64];

    (void)state;
    assert_non_null(mkdtemp(root));
    assert_non_null(strstr(br_gpu_peer_memory(root, text), "modprobe nvidia_peermem"));
    make(root, "sys/module/nvidia_peermem");
    assert_string_equal(br_gpu_peer_memory(root, text), "");
    assert_string_equal(br_gpu_iommu(root, text), "");
    group(root, 0, "identity");
    assert_string_equal(br_gpu_iommu(root, text), "");
    group(root, 1, "DMA-FQ");
    group(root, 2, "DMA");
    assert_non_null(strstr(br_gpu_iommu(root, text), "2 groups"));
    assert_non_null(strstr(text, "iommu=pt"));
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(inventory__says_what_there_is, fresh),
        cmocka_unit_test_setup(inventory__says_what_fails, fresh),
        cmocka_unit_test_setup(inventory__without_a_gpu, fresh),
        cmocka_unit_test_setup(peer_memory__as_sysfs_says, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
