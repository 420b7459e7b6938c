/* SPDX-License-Identifier: BSD-3-Clause */
/* Registration against functions of ours that stand in for libibverbs': what is asked for, what is
 * said, what is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "transport/verbs/memory.h"

#define RELAXED_AND_ALL                                                                            \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                   \
     IBV_ACCESS_RELAXED_ORDERING)

static struct br_device_counters counters;
static struct br_verbs_registrar registrar;
static struct {
    int plain, iova2, dmabuf, dereg; /* calls */
    unsigned int access;
    uint64_t offset;
    int plain_fails, dmabuf_fails, dereg_fails; /* errno; 0: it works */
} fake;
static uint8_t memory[8192];

static struct ibv_mr *make(void *address, size_t bytes, unsigned int access, int fails)
{
    struct ibv_mr *mr;

    fake.access = access;
    if (fails) {
        errno = fails;
        return NULL;
    }
    mr = calloc(1, sizeof *mr);
    assert_non_null(mr);
    mr->addr = address;
    mr->length = bytes;
    return mr;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access)
{
    (void)pd;
    fake.plain++;
    return make(address, bytes, (unsigned int)access, fake.plain_fails);
}

static struct ibv_mr *reg_mr_iova2(struct ibv_pd *pd, void *address, size_t bytes, uint64_t iova,
                                   unsigned int access)
{
    (void)pd;
    assert_int_equal(iova, (uintptr_t)address);
    fake.iova2++;
    return make(address, bytes, access, fake.plain_fails);
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
                                    int fd, int access)
{
    (void)pd;
    assert_int_equal(fd, 77);
    fake.dmabuf++;
    fake.offset = offset;
    return make((void *)(uintptr_t)iova, bytes, (unsigned int)access, fake.dmabuf_fails);
}

static int dereg_mr(struct ibv_mr *mr)
{
    fake.dereg++;
    if (!fake.dereg_fails)
        free(mr);
    return fake.dereg_fails;
}

static int setup(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    memset(&counters, 0, sizeof counters);
    registrar = (struct br_verbs_registrar){.reg_mr = reg_mr,
                                            .reg_mr_iova2 = reg_mr_iova2,
                                            .reg_dmabuf_mr = reg_dmabuf_mr,
                                            .dereg_mr = dereg_mr,
                                            .name = "verbs:nic7",
                                            .counters = &counters};
    return 0;
}

static void region_register__counts_and_releases(void **state)
{
    struct br_region region = {.base = memory, .bytes = sizeof memory, .segment_fd = -1};
    struct ibv_mr *mr;

    (void)state;
    assert_null(br_verbs_region_mr(NULL, 3));
    assert_null(br_verbs_region_mr(&region, 3));
    assert_int_equal(br_verbs_region_register(&registrar, 3, &region), 0);
    mr = br_verbs_region_mr(&region, 3);
    assert_non_null(mr);
    assert_ptr_equal(mr->addr, memory);
    assert_int_equal(fake.iova2, 1);
    assert_int_equal(fake.access, RELAXED_AND_ALL);
    assert_int_equal(counters.registrations, 1);
    assert_int_equal(counters.pinned_bytes, sizeof memory);
    br_verbs_region_release(&registrar, 3, &region);
    br_verbs_region_release(&registrar, 3, &region); /* nothing is left of it */
    assert_null(region.keys[3]);
    assert_int_equal(fake.dereg, 1);
    assert_int_equal(counters.registrations, 1);
    assert_int_equal(counters.pinned_bytes, 0);
}

/* A library without ibv_reg_mr_iova2 would hand a flag that it does not know to a kernel that does
 * not either. */
static void region_register__old_library_no_relaxed_ordering(void **state)
{
    struct br_region region = {.base = memory, .bytes = sizeof memory, .segment_fd = -1};

    (void)state;
    registrar.reg_mr_iova2 = NULL;
    assert_int_equal(br_verbs_region_register(&registrar, 0, &region), 0);
    assert_int_equal(fake.plain, 1);
    assert_int_equal(fake.access, RELAXED_AND_ALL & ~IBV_ACCESS_RELAXED_ORDERING);
    br_verbs_region_release(&registrar, 0, &region);
}

static void region_register__no_memory_names_the_limit(void **state)
{
    struct br_region region = {.base = memory, .bytes = sizeof memory, .segment_fd = -1};
    struct rlimit before, small;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    small = before;
    small.rlim_cur = 64 << 10;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &small), 0);
    fake.plain_fails = ENOMEM;
    assert_int_equal(br_verbs_region_register(&registrar, 0, &region), -ENOMEM);
    assert_null(region.keys[0]);
    assert_non_null(strstr(br_error_message(), "verbs:nic7"));
    assert_non_null(strstr(br_error_message(), "64 KiB"));
    assert_non_null(strstr(br_error_message(), "ulimit -l unlimited"));
    assert_int_equal(counters.registrations, 0);
    assert_int_equal(counters.pinned_bytes, 0);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

static void region_register__other_errors_in_words(void **state)
{
    struct br_region region = {.base = memory, .bytes = sizeof memory, .segment_fd = -1};

    (void)state;
    fake.plain_fails = EFAULT;
    assert_int_equal(br_verbs_region_register(&registrar, 0, &region), -EFAULT);
    assert_non_null(strstr(br_error_message(), "not mapped"));
    fake.plain_fails = EINVAL;
    assert_int_equal(br_verbs_region_register(&registrar, 0, &region), -EINVAL);
    assert_non_null(strstr(br_error_message(), strerror(EINVAL)));
}

static void unpin__failure_stays_counted(void **state)
{
    struct ibv_mr *mr;

    (void)state;
    assert_int_equal(br_verbs_pin(&registrar, memory, 4096, BR_VERBS_ACCESS_LOCAL, &mr), 0);
    assert_int_equal(fake.access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
    fake.dereg_fails = EBUSY;
    assert_false(br_verbs_unpin(&registrar, mr));
    assert_int_equal(counters.pinned_bytes, 4096);
    fake.dereg_fails = 0;
    assert_true(br_verbs_unpin(&registrar, mr));
    assert_int_equal(counters.pinned_bytes, 0);
    assert_true(br_verbs_unpin(&registrar, NULL));
    assert_int_equal(fake.dereg, 2);
}

static void region_register__gpu_by_dmabuf(void **state)
{
    struct br_region_gpu gpu = {.dmabuf = 77, .dmabuf_offset = 0x3000};
    struct br_region region = {
        .base = memory, .bytes = sizeof memory, .segment_fd = -1, .gpu = &gpu};

    (void)state;
    assert_int_equal(br_verbs_region_register(&registrar, 0, &region), 0);
    assert_int_equal(fake.dmabuf, 1);
    assert_int_equal(fake.offset, 0x3000);
    assert_int_equal(fake.iova2, 0);
    assert_null(gpu.no_dmabuf);
    assert_int_equal(counters.pinned_bytes, sizeof memory);
    br_verbs_region_release(&registrar, 0, &region);
    assert_int_equal(counters.pinned_bytes, 0);
}

static void region_register__gpu_by_peer_memory(void **state)
{
    struct br_region_gpu gpu = {.dmabuf = 77};
    struct br_region region = {
        .base = memory, .bytes = sizeof memory, .segment_fd = -1, .gpu = &gpu};

    (void)state;
    fake.dmabuf_fails = EOPNOTSUPP; /* what soft-RoCE says */
    assert_int_equal(br_verbs_region_register(&registrar, 0, &region), 0);
    assert_non_null(gpu.no_dmabuf);
    assert_int_equal(fake.iova2, 1);
    br_verbs_region_release(&registrar, 0, &region);
    gpu.dmabuf = -1;
    assert_int_equal(br_verbs_region_register(&registrar, 0, &region), 0);
    assert_int_equal(fake.dmabuf, 1);
    br_verbs_region_release(&registrar, 0, &region);
}

static void region_register__gpu_neither_way(void **state)
{
    struct br_region_gpu gpu = {.dmabuf = 77};
    struct br_region region = {
        .base = memory, .bytes = sizeof memory, .segment_fd = -1, .gpu = &gpu};

    (void)state;
    fake.dmabuf_fails = EOPNOTSUPP;
    fake.plain_fails = EFAULT;
    assert_int_equal(br_verbs_region_register(&registrar, 0, &region), -EFAULT);
    assert_non_null(strstr(br_error_message(), "dma-buf"));
    assert_non_null(strstr(br_error_message(), "nvidia_peermem"));
    assert_null(gpu.no_dmabuf);
    fake.dmabuf_fails = ENOMEM; /* could be imported, but not now: no second way is tried */
    assert_int_equal(br_verbs_region_register(&registrar, 0, &region), -ENOMEM);
    assert_int_equal(fake.iova2, 1);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(region_register__counts_and_releases, setup),
        cmocka_unit_test_setup(region_register__old_library_no_relaxed_ordering, setup),
        cmocka_unit_test_setup(region_register__no_memory_names_the_limit, setup),
        cmocka_unit_test_setup(region_register__other_errors_in_words, setup),
        cmocka_unit_test_setup(unpin__failure_stays_counted, setup),
        cmocka_unit_test_setup(region_register__gpu_by_dmabuf, setup),
        cmocka_unit_test_setup(region_register__gpu_by_peer_memory, setup),
        cmocka_unit_test_setup(region_register__gpu_neither_way, setup),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
