/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"

static char folder[64], path[128];

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/braid-file-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/result", folder);
    return 0;
}

/* How many files the folder has. */
static int files(bool remove_them)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char name[400];
    int n = 0;

    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.') {
            n++;
            snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
            if (remove_them)
                unlink(name);
        }
    closedir(dir);
    return n;
}

static int teardown(void **state)
{
    (void)state;
    files(true);
    return rmdir(folder);
}

static int write_text(const char *to, const char *text, bool fresh, int rc)
{
    struct br_file file;
    int opened = br_file_open(&file, "a test", to, fresh);

    if (opened)
        return opened;
    fputs(text, file.stream);
    return br_file_close(&file, "a test", rc);
}

static void holds(const char *from, const char *text)
{
    char found[256] = "";
    FILE *file = fopen(from, "r");

    assert_non_null(file);
    assert_true(fread(found, 1, sizeof found - 1, file) == strlen(text));
    fclose(file);
    assert_string_equal(found, text);
}

static void file__replaces_when_all_is_well(void **state)
{
    struct br_file file;
    struct stat st;

    (void)state;
    assert_int_equal(write_text(path, "old", false, 0), 0);
    holds(path, "old");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(br_file_open(&file, "a test", path, false), 0);
    fputs("new", file.stream);
    assert_int_equal(fflush(file.stream), 0);
    holds(path, "old"); /* until the end */
    assert_int_equal(br_file_close(&file, "a test", 0), 0);
    assert_int_equal(br_file_close(&file, "a test", -ENOENT), -ENOENT); /* all zero now */
    holds(path, "new");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(files(false), 1);
}

static void file__a_failure_of_the_caller_keeps_the_old_one(void **state)
{
    (void)state;
    assert_int_equal(write_text(path, "half", false, -EINTR), -EINTR);
    assert_int_equal(files(false), 0);
    assert_int_equal(write_text(path, "half", true, -EINTR), -EINTR);
    assert_int_equal(files(false), 0);
    assert_int_equal(write_text(path, "old", true, 0), 0);
    assert_int_equal(write_text(path, "half", false, -EINTR), -EINTR);
    holds(path, "old");
    assert_int_equal(files(false), 1);
    assert_int_equal(write_text(path, "new", true, 0), -EEXIST);
    assert_non_null(strstr(br_error_message(), path));
    holds(path, "old");
}

static void file__published_and_written_further(void **state)
{
    struct br_file file;

    (void)state;
    assert_int_equal(write_text(path, "old", false, 0), 0);
    assert_int_equal(br_file_open(&file, "a test", path, false), 0);
    fputs("one", file.stream);
    assert_int_equal(br_file_publish(&file, "a test"), 0);
    holds(path, "one");
    fputs(" two", file.stream);
    assert_int_equal(br_file_close(&file, "a test", -ECANCELED), -ECANCELED);
    holds(path, "one two");
    assert_int_equal(files(false), 1);
}

/* A link to the file stays one; a link that somebody lays where the temporary file should go is not
 * followed. */
static void file__links(void **state)
{
    char link[160], planted[160], victim[160];
    struct stat st;

    (void)state;
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(victim, sizeof victim, "%s/victim", folder);
    snprintf(planted, sizeof planted, "%s.%d-0.new", path, (int)getpid());
    assert_int_equal(write_text(path, "old", false, 0), 0);
    assert_int_equal(write_text(victim, "untouched", false, 0), 0);
    assert_int_equal(symlink("result", link), 0);
    assert_int_equal(symlink(victim, planted), 0);
    assert_int_equal(write_text(link, "new", false, 0), 0);
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    holds(path, "new");
    holds(victim, "untouched");
    assert_int_equal(unlink(path), 0); /* the link leads nowhere now */
    assert_int_equal(write_text(link, "made", false, 0), 0);
    holds(path, "made");
}

static void file__what_is_no_file(void **state)
{
    (void)state;
    assert_int_equal(write_text("/dev/null", "words", false, 0), 0);
    assert_int_equal(write_text("/dev/full", "words", false, 0), -ENOSPC);
    assert_non_null(strstr(br_error_message(), "a test: cannot write /dev/full: No space"));
    assert_int_equal(access("/dev/full", F_OK), 0);
    assert_int_equal(write_text(folder, "words", false, 0), -EISDIR);
    assert_int_equal(write_text("/no/such/folder/file", "words", false, 0), -ENOENT);
}

/* A file system of 8 KiB, in a mount namespace of our own; needs root. */
static void file__full_disk_keeps_the_old_one(void **state)
{
    static char much[100000];

    (void)state;
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("braid", folder, "tmpfs", 0, "size=8k"))
        skip();
    memset(much, 'x', sizeof much - 1);
    assert_int_equal(write_text(path, "old", false, 0), 0);
    assert_int_equal(write_text(path, much, false, 0), -ENOSPC);
    assert_non_null(strstr(br_error_message(), path));
    assert_non_null(strstr(br_error_message(), "No space"));
    holds(path, "old");
    assert_int_equal(files(false), 1);
    files(true);
    assert_int_equal(umount(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(file__replaces_when_all_is_well, setup, teardown),
        cmocka_unit_test_setup_teardown(file__a_failure_of_the_caller_keeps_the_old_one, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(file__published_and_written_further, setup, teardown),
        cmocka_unit_test_setup_teardown(file__links, setup, teardown),
        cmocka_unit_test_setup_teardown(file__what_is_no_file, setup, teardown),
        cmocka_unit_test_setup_teardown(file__full_disk_keeps_the_old_one, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
