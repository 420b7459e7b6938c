/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"

#define EVENTS 16 /* of one read */
#define FEATURES                                                                                   \
    (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE |             \
     UFFD_FEATURE_PAGEFAULT_FLAG_WP)

static struct {
    pthread_mutex_t starting; /* around the first open and the last close */
    /* the lock of the header: watches, and what their owners keep under it */
    pthread_mutex_t lock;
    struct br_list watches;
    int n_watches;
    /* userfaultfd; -1: none, or another process's (note 8). Constant while there are watches */
    int fd;
    int stop_fd; /* readable: the thread ends */
    pthread_t thread;
} monitor = {
    .starting = PTHREAD_MUTEX_INITIALIZER,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .watches = {&monitor.watches, &monitor.watches},
    .fd = -1,
    .stop_fd = -1,
};

void br_monitor_lock(void)
{
    pthread_mutex_lock(&monitor.lock);
}

void br_monitor_unlock(void)
{
    pthread_mutex_unlock(&monitor.lock);
}

static void monitor_notify(uintptr_t start, uintptr_t end)
{
    br_list_for_each (node, &monitor.watches) {
        struct br_watch *watch = br_container_of(node, struct br_watch, node);

        watch->invalidate(watch, start, end);
    }
}

/* Under the lock: reads all there is. */
static void monitor_drain(void)
{
    struct uffd_msg messages[EVENTS];
    ssize_t bytes;

    while ((bytes = read(monitor.fd, messages, sizeof messages)) > 0)
        for (size_t i = 0; i < (size_t)bytes / sizeof messages[0]; i++) {
            const struct uffd_msg *m = &messages[i];

            if (m->event == UFFD_EVENT_REMAP)
                monitor_notify(m->arg.remap.from, m->arg.remap.from + m->arg.remap.len);
            else if (m->event == UFFD_EVENT_UNMAP || m->event == UFFD_EVENT_REMOVE)
                monitor_notify(m->arg.remove.start, m->arg.remove.end);
        }
}

/* Note 4: no range, so nothing is filled; EINVAL says so, once no change is under way. */
static bool monitor_is_current(void)
{
    struct uffdio_zeropage nothing = {0};

    return ioctl(monitor.fd, UFFDIO_ZEROPAGE, &nothing) && errno == EINVAL;
}

bool br_monitor_is_current(void)
{
    if (monitor_is_current())
        return true;
    monitor_drain();
    return monitor_is_current();
}

int br_monitor_arm(uintptr_t start, uintptr_t end)
{
    struct uffdio_register range = {.range = {.start = start, .len = end - start},
                                    .mode = UFFDIO_REGISTER_MODE_WP};

    if (!ioctl(monitor.fd, UFFDIO_REGISTER, &range))
        return 0;
    return br_error(errno, "%zu bytes at %p cannot be watched by userfaultfd: %s",
                    (size_t)(end - start), (void *)start,
                    errno == EINVAL  ? "part of them is a file's, or not mapped"
                    : errno == EBUSY ? "another userfaultfd serves them"
                                     : strerror(errno));
}

static void *monitor_serve(void *unused)
{
    struct pollfd fds[] = {{.fd = monitor.fd, .events = POLLIN},
                           {.fd = monitor.stop_fd, .events = POLLIN}};

    while (!fds[1].revents) {
        if (poll(fds, 2, -1) <= 0)
            continue;
        br_monitor_lock();
        monitor_drain();
        br_monitor_unlock();
    }
    br_monitor_lock();
    close(monitor.fd); /* note 8 */
    monitor.fd = -1;
    br_monitor_unlock();
    return unused;
}

static void before_fork(void)
{
    br_monitor_lock();
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void after_fork_child(void)
{
    close_one(&monitor.fd);
    close_one(&monitor.stop_fd);
    br_monitor_unlock();
}

static int hook_fork(void)
{
    static bool hooked; /* under `starting` */
    int err = hooked ? 0 : pthread_atfork(before_fork, br_monitor_unlock, after_fork_child);

    hooked |= !err;
    return err ? br_error(err, "no memory to watch memory") : 0;
}

static int open_descriptor(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = FEATURES};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY), err;

    if (fd < 0 && errno == EINVAL) /* before 5.11 */
        fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return br_error(errno, "userfaultfd: %s%s", strerror(errno),
                        errno == EPERM
                            ? " (a container's seccomp profile, or vm.unprivileged_userfaultfd=0 "
                              "before Linux 5.11)"
                        : errno == ENOSYS ? " (a kernel without CONFIG_USERFAULTFD)"
                                          : "");
    err = ioctl(fd, UFFDIO_API, &api) ? errno : 0;
    if (!err && (api.features & FEATURES) == FEATURES)
        return fd;
    close(fd);
    return br_error(err ? err : EOPNOTSUPP, "userfaultfd: this kernel reports no unmapping of "
                                            "memory, or not without page faults (Linux "
                                            "5.7 on x86-64 does)");
}

/* Under the lock: a fork() in between would leave a copy in the child. Nothing is armed yet, so
 * note 3 is no matter. */
static int open_descriptors(void)
{
    int fd = open_descriptor();

    if (fd < 0)
        return fd;
    monitor.fd = fd;
    monitor.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return monitor.stop_fd < 0
               ? br_error(errno, "no descriptor to watch memory: %s", strerror(errno))
               : 0;
}

static void close_descriptors(void)
{
    br_monitor_lock();
    close_one(&monitor.fd);
    close_one(&monitor.stop_fd);
    br_monitor_unlock();
}

static int monitor_start(void)
{
    int err, rc = hook_fork();

    if (rc)
        return rc;
    br_monitor_lock();
    rc = open_descriptors();
    br_monitor_unlock();
    if (!rc) {
        /* No signal handler of the program runs on this thread: one that unmaps would wait for
         * itself. */
        err = br_thread_start(&monitor.thread, monitor_serve, NULL);
        rc = err ? br_error(err, "no thread to watch memory: %s", strerror(err)) : 0;
    }
    if (rc)
        close_descriptors();
    return rc;
}

int br_monitor_open(struct br_watch *watch)
{
    int rc;

    pthread_mutex_lock(&monitor.starting);
    rc = monitor.n_watches ? 0 : monitor_start();
    if (!rc) {
        br_monitor_lock();
        br_list_push_back(&monitor.watches, &watch->node);
        br_monitor_unlock();
        monitor.n_watches++;
    }
    pthread_mutex_unlock(&monitor.starting);
    return rc;
}

void br_monitor_close(struct br_watch *watch)
{
    pthread_mutex_lock(&monitor.starting);
    br_monitor_lock();
    br_list_remove(&watch->node);
    br_monitor_unlock();
    if (!--monitor.n_watches && monitor.stop_fd >= 0) { /* in a child of fork() it is closed */
        eventfd_write(monitor.stop_fd, 1);
        pthread_join(monitor.thread, NULL);
        close_descriptors();
    }
    pthread_mutex_unlock(&monitor.starting);
}
