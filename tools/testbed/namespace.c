/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/namespace.h"

#include "base/error.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER     "/run/netns"
#define OWN        "/proc/self/ns/net"
#define PATH_BYTES (sizeof FOLDER + BR_NAMESPACE_NAME)

static void namespace_path_of(const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, FOLDER "/%s", name);
}

/* ---- making and removing --------------------------------------------------------------------- */

/* As ip does it, under the same lock: mounts made here shall go when they are unmounted elsewhere,
 * and the other way round. */
static int share_folder(void)
{
    int fd, rc = 0;

    if (mkdir(FOLDER, 0755) < 0 && errno != EEXIST)
        return br_error(errno, "cannot make %s: %s", FOLDER, strerror(errno));
    fd = open(FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        rc = br_error(errno, "%s: %s", FOLDER, strerror(errno));
    else if (mount("", FOLDER, "none", MS_SHARED | MS_REC, NULL) < 0 &&
             (mount(FOLDER, FOLDER, "none", MS_BIND | MS_REC, NULL) < 0 ||
              mount("", FOLDER, "none", MS_SHARED | MS_REC, NULL) < 0))
        rc = br_error(errno, "cannot mount %s: %s%s", FOLDER, strerror(errno),
                      errno == EPERM ? " (it takes root)" : "");
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Goes back to the namespace `own`. There is no way on when that fails. */
static int go_back(int own, int rc)
{
    if (setns(own, CLONE_NEWNET) < 0)
        rc = br_error(errno, "cannot go back to the machine's network: %s", strerror(errno));
    close(own);
    return rc;
}

int br_namespace_add(const char *name)
{
    char path[PATH_BYTES];
    int rc = share_folder(), fd, own;

    if (rc < 0)
        return rc;
    namespace_path_of(name, path);
    fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (fd < 0)
        return br_error(errno, "cannot make network namespace %s: %s", name, strerror(errno));
    close(fd);
    own = open(OWN, O_RDONLY | O_CLOEXEC);
    if (own < 0 || unshare(CLONE_NEWNET) < 0) {
        rc = br_error(errno, "cannot make network namespace %s: %s", name, strerror(errno));
        if (own >= 0)
            close(own);
    } else {
        if (mount(OWN, path, "none", MS_BIND, NULL) < 0)
            rc = br_error(errno, "cannot mount network namespace %s: %s", path, strerror(errno));
        rc = go_back(own, rc);
    }
    if (rc < 0)
        unlink(path);
    return rc;
}

int br_namespace_remove(const char *name)
{
    char path[PATH_BYTES];

    namespace_path_of(name, path);
    while (umount2(path, MNT_DETACH) == 0)
        ;
    if (unlink(path) < 0 && errno != ENOENT)
        return br_error(errno, "cannot remove %s: %s", path, strerror(errno));
    return 0;
}

/* ---- the processes inside -------------------------------------------------------------------- */

static bool is_inside(const char *pid, const struct stat *space)
{
    char path[64];
    struct stat st;

    if (!isdigit((unsigned char)*pid) || atoi(pid) == (int)getpid())
        return false;
    snprintf(path, sizeof path, "/proc/%.20s/ns/net", pid);
    return stat(path, &st) == 0 && st.st_ino == space->st_ino && st.st_dev == space->st_dev;
}

int br_namespace_signal(const char *name, int number)
{
    char path[PATH_BYTES];
    struct dirent *entry;
    struct stat space;
    DIR *processes;
    int n = 0;

    namespace_path_of(name, path);
    if (stat(path, &space) < 0)
        return 0;
    processes = opendir("/proc");
    while (processes && (entry = readdir(processes)))
        if (is_inside(entry->d_name, &space) && kill(atoi(entry->d_name), number) == 0)
            n++;
    if (processes)
        closedir(processes);
    return n;
}

/* ---- going in -------------------------------------------------------------------------------- */

int br_namespace_open(const char *name)
{
    char path[PATH_BYTES];
    int fd;

    namespace_path_of(name, path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? br_error(errno, "network namespace %s: %s", path, strerror(errno)) : fd;
}

/* What /sys/class/net shows is decided when it is mounted. Mounts made here are seen by nobody
 * else. */
static int mount_sys(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount("", "/", "none", MS_SLAVE | MS_REC, NULL) < 0)
        return br_error(errno, "no mount namespace: %s", strerror(errno));
    if (mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return br_error(errno, "cannot mount /sys: %s", strerror(errno));
    return 0;
}

/* Only the network. */
static int go_in(const char *name)
{
    int fd = br_namespace_open(name), rc = 0;

    if (fd < 0)
        return fd;
    if (setns(fd, CLONE_NEWNET) < 0)
        rc = br_error(errno, "cannot enter network namespace %s: %s%s", name, strerror(errno),
                      errno == EPERM ? " (it takes root)" : "");
    close(fd);
    return rc;
}

int br_namespace_visit(const char *name, int (*visit)(void *with), void *with)
{
    int own = open(OWN, O_RDONLY | O_CLOEXEC), rc;

    if (own < 0)
        return br_error(errno, "%s: %s", OWN, strerror(errno));
    rc = go_in(name);
    if (rc == 0)
        rc = visit(with);
    return go_back(own, rc);
}

int br_namespace_enter(const char *name, const char *hostname)
{
    int rc = go_in(name);

    if (rc == 0)
        rc = mount_sys();
    if (rc == 0 && hostname &&
        (unshare(CLONE_NEWUTS) < 0 || sethostname(hostname, strlen(hostname)) < 0))
        rc = br_error(errno, "cannot name the host %s: %s", hostname, strerror(errno));
    return rc;
}
