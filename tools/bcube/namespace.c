/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/bcube/namespace.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define FOLDER "/run/netns"

int br_namespace_open(const char *name)
{
    char path[sizeof FOLDER + BR_NAMESPACE_NAME];
    int fd;

    snprintf(path, sizeof path, FOLDER "/%s", name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? br_error(errno, "network namespace %s: %s", path, strerror(errno)) : fd;
}

/* What /sys/class/net shows is decided when it is mounted. Mounts made here are seen by nobody else. */
static int mount_sys(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount("", "/", "none", MS_SLAVE | MS_REC, NULL) < 0)
        return br_error(errno, "no mount namespace: %s", strerror(errno));
    if (mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return br_error(errno, "cannot mount /sys: %s", strerror(errno));
    return 0;
}

int br_namespace_enter(const char *name, const char *hostname)
{
    int fd = br_namespace_open(name), rc = 0;

    if (fd < 0)
        return fd;
    if (setns(fd, CLONE_NEWNET) < 0)
        rc = br_error(errno, "cannot enter network namespace %s: %s%s", name, strerror(errno),
                      errno == EPERM ? " (it takes root)" : "");
    close(fd);
    if (rc == 0)
        rc = mount_sys();
    if (rc == 0 && hostname && (unshare(CLONE_NEWUTS) < 0 || sethostname(hostname, strlen(hostname)) < 0))
        rc = br_error(errno, "cannot name the host %s: %s", hostname, strerror(errno));
    return rc;
}
