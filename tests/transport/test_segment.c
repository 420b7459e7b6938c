/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/error.h"
#include "transport/segment.h"

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

/* In no folder. */
static bool is_nameless(int fd)
{
    char path[32], name[64] = "";

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return readlink(path, name, sizeof name - 1) > 0 && !strncmp(name, "/memfd:", 7);
}

static void alloc__is_zeroed_shared_and_nameless(void **state)
{
    static const size_t sizes[] = {0, 1, 4096, 5000, 2 << 20, (2 << 20) + 1};
    int fds = count_entries("/proc/self/fd");

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes, last = sizes[i] ? sizes[i] - 1 : 0;
        uint8_t *seen;
        void *base;
        int fd;

        assert_int_equal(br_segment_alloc(sizes[i], -1, &base, &fd), 0);
        assert_int_equal(((uint8_t *)base)[last], 0);
        ((uint8_t *)base)[last] = 9;
        assert_int_equal(br_segment_check(fd, &bytes), 0);
        assert_true(bytes >= sizes[i]);
        seen = br_segment_map(fd, bytes, PROT_READ);
        assert_int_equal(seen[last], 9);
        if (bytes >= 2 << 20)
            assert_int_equal((uintptr_t)seen % (2 << 20), 0);
        munmap(seen, bytes);
        assert_true(is_nameless(fd));
        br_segment_free(base, sizes[i], fd);
    }
    assert_int_equal(count_entries("/proc/self/fd"), fds);
}

static void alloc__cannot_be_resized(void **state)
{
    void *base;
    int fd;

    (void)state;
    assert_int_equal(br_segment_alloc(8192, 0, &base, &fd), 0);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, 1 << 20), -1);
    br_segment_free(base, 8192, fd);
}

static void alloc__more_than_there_is(void **state)
{
    int fds = count_entries("/proc/self/fd"), fd;
    void *base;

    (void)state;
    assert_int_equal(br_segment_alloc(SIZE_MAX, -1, &base, &fd), -ENOMEM);
    assert_true(br_segment_alloc((size_t)1 << 62, -1, &base, &fd) < 0);
    assert_true(strlen(br_error_message()) > 10);
    assert_int_equal(count_entries("/proc/self/fd"), fds);
}

static void check__other_files_are_refused(void **state)
{
    int plain = memfd_create("plain", MFD_CLOEXEC), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    size_t bytes;

    (void)state;
    assert_int_equal(ftruncate(plain, 4096), 0);
    assert_int_equal(br_segment_check(plain, &bytes), -EPROTO);
    assert_int_equal(br_segment_check(null, &bytes), -EPROTO);
    assert_int_equal(br_segment_check(-1, &bytes), -EPROTO);
    close(plain);
    close(null);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc__is_zeroed_shared_and_nameless),
        cmocka_unit_test(alloc__cannot_be_resized),
        cmocka_unit_test(alloc__more_than_there_is),
        cmocka_unit_test(check__other_files_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
