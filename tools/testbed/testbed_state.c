/* SPDX-License-Identifier: BSD-3-Clause */
/* The state folder of an emulated BCube. */
#include "base/error.h"
#include "base/file.h"
#include "tools/testbed/testbed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SETTINGS "testbed"
#define ROOT     "/run/braid"
#define LIST_MAX 64

#define LOCK_TRIES 500 /* 5 s */
#define LOCK_PAUSE 10000

static char *root_folder(char out[BR_TESTBED_FOLDER])
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (geteuid() == 0)
        snprintf(out, BR_TESTBED_FOLDER, "%s", ROOT);
    else if (runtime && *runtime == '/' &&
             strlen(runtime) < BR_TESTBED_FOLDER - BR_TESTBED_NAME - 8)
        snprintf(out, BR_TESTBED_FOLDER, "%s/braid", runtime);
    else
        snprintf(out, BR_TESTBED_FOLDER, "/tmp/braid-%u", (unsigned)geteuid());
    return out;
}

char *br_testbed_path(const struct br_testbed *testbed, const char *file,
                      char out[BR_TESTBED_FOLDER + 32])
{
    snprintf(out, BR_TESTBED_FOLDER + 32, "%s/%.30s", testbed->folder, file);
    return out;
}

static void set_folder(struct br_testbed *testbed)
{
    char root[BR_TESTBED_FOLDER];

    testbed->lock = -1;
    if (snprintf(testbed->folder, sizeof testbed->folder, "%s/%s", root_folder(root),
                 testbed->name) >= (int)sizeof testbed->folder)
        testbed->folder[0] = 0; /* excluded by root_folder() */
}

/* ---- locks ----------------------------------------------------------------------------------- */

/* A killed command may be a while in the kernel before its lock goes. */
static bool wait_for_lock(int fd, int kind)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, kind | LOCK_NB) == 0)
            return true;
        usleep(LOCK_PAUSE);
    }
    return false;
}

/* Is the locked folder still the testbed's? It may have been removed while we waited, and made
 * anew. */
static bool is_still(const struct br_testbed *testbed)
{
    struct stat ours, there;

    return fstat(testbed->lock, &ours) == 0 && stat(testbed->folder, &there) == 0 &&
           ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

static int lock_folder(struct br_testbed *testbed)
{
    testbed->lock = open(testbed->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (testbed->lock < 0)
        return br_error(errno, "testbed %s: %s: %s", testbed->name, testbed->folder,
                        strerror(errno));
    if (!wait_for_lock(testbed->lock, LOCK_EX)) {
        br_testbed_close(testbed);
        return br_error(EBUSY, "testbed %s: another command works on it; wait for its end",
                        testbed->name);
    }
    if (is_still(testbed))
        return 0;
    br_testbed_close(testbed);
    return br_error(ENOENT, "there is no testbed %s any more", testbed->name);
}

/* Is somebody at work on it, and does not come to an end? */
static bool is_locked(const struct br_testbed *testbed)
{
    int fd = open(testbed->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool locked = fd >= 0 && !wait_for_lock(fd, LOCK_SH);

    if (fd >= 0)
        close(fd);
    return locked;
}

/* ---- settings -------------------------------------------------------------------------------- */

int br_testbed_save(const struct br_testbed *testbed)
{
    char path[BR_TESTBED_FOLDER + 32];
    struct br_file file;
    int rc = br_file_open(&file, NULL, br_testbed_path(testbed, SETTINGS, path), false);

    if (rc)
        return rc;
    fprintf(file.stream, "shape %u,%u\nhosts %u\nrate %" PRIu64 "\nmtu %u\nloopback %d\nready %d\n",
            testbed->cube.n, testbed->cube.k, testbed->hosts, testbed->rate, testbed->mtu,
            testbed->loopback, testbed->ready);
    return br_file_close(&file, NULL, 0);
}

/* No file: cube.n stays 0. */
static int testbed_state_load(struct br_testbed *testbed)
{
    char path[BR_TESTBED_FOLDER + 32], shape[24] = "";
    FILE *file = fopen(br_testbed_path(testbed, SETTINGS, path), "re");
    int loopback = 0, ready = 0, n;

    testbed->cube = (struct br_bcube){0};
    testbed->ready = false;
    if (!file && errno == ENOENT)
        return 0;
    if (!file)
        return br_error(errno, "cannot read %s: %s", path, strerror(errno));
    n = fscanf(file, "shape %23s hosts %u rate %" SCNu64 " mtu %u loopback %d ready %d", shape,
               &testbed->hosts, &testbed->rate, &testbed->mtu, &loopback, &ready);
    fclose(file);
    if (n != 6 || br_bcube_parse(&testbed->cube, shape) < 0 || testbed->hosts > testbed->cube.hosts)
        return br_error(
            EINVAL, "%s is damaged; remove the folder by hand when nothing of the testbed is left",
            path);
    testbed->loopback = loopback;
    testbed->ready = ready;
    return br_testbed_lay(testbed);
}

int br_testbed_check_ready(struct br_testbed *testbed)
{
    int rc;

    if (testbed->ready)
        return 0;
    if (is_locked(testbed))
        return br_error(EAGAIN, "testbed %s is being made or removed; wait for the end of that",
                        testbed->name);
    rc = testbed_state_load(testbed);
    if (rc < 0 || testbed->ready)
        return rc;
    if (access(testbed->folder, F_OK) < 0)
        return br_error(ENOENT, "there is no testbed %s any more", testbed->name);
    return br_error(EAGAIN,
                    "testbed %s is half made, its maker was killed; `braid bcube down %s` removes "
                    "what there is",
                    testbed->name, testbed->name);
}

/* ---- folders --------------------------------------------------------------------------------- */

/* In /tmp somebody else may have been first. */
static int check_owner(const char *root)
{
    struct stat st;

    if (lstat(root, &st) < 0)
        return errno == ENOENT ? 0 : br_error(errno, "%s: %s", root, strerror(errno));
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return br_error(EPERM,
                        "the state folder %s belongs to another user; set XDG_RUNTIME_DIR to a "
                        "folder of your own",
                        root);
    return 0;
}

/* The root goes with the last testbed, perhaps just when we want to use it: then again. */
static int make_folder(const struct br_testbed *testbed)
{
    char root[BR_TESTBED_FOLDER];
    int rc;

    root_folder(root);
    for (int tries = 0; tries < 3; tries++) {
        if (mkdir(root, 0755) < 0 && errno != EEXIST)
            return br_error(errno, "cannot make the state folder %s: %s", root, strerror(errno));
        rc = check_owner(root);
        if (rc < 0)
            return rc;
        if (mkdir(testbed->folder, 0755) == 0)
            return 0;
        if (errno != ENOENT)
            break;
    }
    if (errno != EEXIST)
        return br_error(errno, "cannot make the state folder %s: %s", testbed->folder,
                        strerror(errno));
    return br_error(
        EEXIST,
        "there is a testbed %s already; `braid bcube down %s` removes it, --name makes another",
        testbed->name, testbed->name);
}

int br_testbed_create(struct br_testbed *testbed)
{
    int rc;

    set_folder(testbed);
    rc = make_folder(testbed);
    return rc < 0 ? rc : lock_folder(testbed);
}

int br_testbed_list(char names[][BR_TESTBED_NAME], int max)
{
    char root[BR_TESTBED_FOLDER];
    DIR *folder = opendir(root_folder(root));
    struct dirent *entry;
    int n = 0;

    while (folder && n < max && (entry = readdir(folder)))
        if (br_testbed_check_name(entry->d_name) == 0)
            snprintf(names[n++], BR_TESTBED_NAME, "%.*s", BR_TESTBED_NAME - 1, entry->d_name);
    if (folder)
        closedir(folder);
    return n;
}

static int testbed_state_choose(struct br_testbed *testbed)
{
    char names[LIST_MAX][BR_TESTBED_NAME];
    int n = br_testbed_list(names, LIST_MAX);

    if (n == 0)
        return br_error(ENOENT, "there is no testbed; `braid bcube emulate 3 2` makes one");
    if (n > 1)
        return br_error(ENOENT, "there are %d testbeds (%s, %s%s): say which, with its name", n,
                        names[0], names[1], n > 2 ? ", ..." : "");
    snprintf(testbed->name, sizeof testbed->name, "%s", names[0]);
    return 0;
}

int br_testbed_open(struct br_testbed *testbed, const char *name, bool lock)
{
    int rc = name ? br_testbed_check_name(name) : 0;

    *testbed = (struct br_testbed){.lock = -1};
    if (rc == 0 && name)
        snprintf(testbed->name, sizeof testbed->name, "%s", name);
    else if (rc == 0)
        rc = testbed_state_choose(testbed);
    if (rc < 0)
        return rc;
    set_folder(testbed);
    if (access(testbed->folder, F_OK) < 0)
        return br_error(ENOENT, "there is no testbed %s; `braid bcube list` says which there are",
                        testbed->name);
    rc = lock ? lock_folder(testbed) : 0;
    if (rc == 0)
        rc = testbed_state_load(testbed);
    if (rc < 0)
        br_testbed_close(testbed);
    return rc;
}

void br_testbed_close(struct br_testbed *testbed)
{
    if (testbed->lock >= 0)
        close(testbed->lock);
    testbed->lock = -1;
}

/* The settings go last but for the folder: until then `down` can be repeated. */
int br_testbed_forget(struct br_testbed *testbed)
{
    char path[BR_TESTBED_FOLDER + 32], root[BR_TESTBED_FOLDER];
    DIR *folder = opendir(testbed->folder);
    struct dirent *entry;

    while (folder && (entry = readdir(folder)))
        if (strcmp(entry->d_name, SETTINGS) != 0 && *entry->d_name != '.')
            unlink(br_testbed_path(testbed, entry->d_name, path));
    if (folder)
        closedir(folder);
    unlink(br_testbed_path(testbed, SETTINGS, path));
    if (rmdir(testbed->folder) < 0)
        return br_error(errno, "cannot remove %s: %s", testbed->folder, strerror(errno));
    rmdir(root_folder(root)); /* it stays while there are others */
    br_testbed_close(testbed);
    return 0;
}
