/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The numbered notes, about huge pages, residency and fork(), are in doc/design/shared_memory.md.
 */
#include "transport/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <numa.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/available.h"
#include "base/error.h"

#define HUGE_PAGE ((size_t)2 << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static size_t segment_round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static size_t segment_bytes(size_t bytes)
{
    return segment_round_up(bytes ? bytes : 1,
                            bytes >= HUGE_PAGE ? HUGE_PAGE : (size_t)sysconf(_SC_PAGESIZE));
}

int br_segment_create(const char *name, size_t bytes)
{
    size_t size = segment_bytes(bytes);
    int fd, rc;

    if (size < bytes)
        return br_error(ENOMEM, "no memory for %zu bytes", bytes);
    fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return br_error(errno, "memfd_create: %s", strerror(errno));
    if (ftruncate(fd, (off_t)size) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        rc = br_error(errno, "cannot make a segment of %zu bytes: %s", size, strerror(errno));
        close(fd);
        return rc;
    }
    return fd;
}

int br_segment_check(int fd, size_t *bytes)
{
    struct statfs fs;
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    /* tmpfs only: a file of hugetlbfs can raise SIGBUS when its pool runs dry. */
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC ||
        fstat(fd, &st) < 0 || st.st_size <= 0)
        return br_error(EPROTO,
                        "the peer handed over a file that is not a memfd sealed against shrinking");
    *bytes = (size_t)st.st_size;
    return 0;
}

/* Making more pages resident than there are does not fail: the kernel kills some process. Small
 * ones are not worth the look. */
static int check_room(size_t bytes)
{
    const char *limit;
    uint64_t room;

    if (bytes < HUGE_PAGE)
        return 0;
    room = br_available_memory("", &limit);
    return bytes <= room
               ? 0
               : br_error(ENOMEM,
                          "no memory for %zu bytes (%zu MiB): only %llu MiB are free, by %s", bytes,
                          bytes >> 20, (unsigned long long)room >> 20, limit);
}

/* An address range of `bytes` that begins on a huge page. */
static void *reserve_aligned(size_t bytes)
{
    uint8_t *range = mmap(NULL, bytes + HUGE_PAGE, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t before;

    if (range == MAP_FAILED)
        return MAP_FAILED;
    before = segment_round_up((size_t)range, HUGE_PAGE) - (size_t)range;
    if (before)
        munmap(range, before);
    munmap(range + before + bytes, HUGE_PAGE - before);
    return range + before;
}

void *br_segment_map(int fd, size_t bytes, int protection)
{
    void *base, *place = NULL;
    int flags = MAP_SHARED;

    if (bytes >= HUGE_PAGE && bytes % HUGE_PAGE == 0) {
        place = reserve_aligned(bytes);
        if (place == MAP_FAILED)
            return br_error(ENOMEM, "no address space for %zu bytes", bytes), NULL;
        flags |= MAP_FIXED;
    }
    base = mmap(place, bytes, protection, flags, fd, 0);
    if (base == MAP_FAILED) {
        br_error(errno, "cannot map a segment of %zu bytes: %s", bytes, strerror(errno));
        if (place)
            munmap(place, bytes);
        return NULL;
    }
    if (place)
        (void)madvise(base, bytes,
                      MADV_HUGEPAGE); /* refused where huge pages are off: then small ones serve */
    return base;
}

/* ---- fork(): note 4 -------------------------------------------------------------------------- */

struct segment {
    void *base;
    size_t bytes;
    int fd;
};

static struct {
    /* all below; also held across fork(), so that the child finds a whole list */
    pthread_mutex_t lock;
    struct segment *list;
    size_t n, room;
    bool watched; /* the three functions below are called at fork() */
} segments = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock_segments(void)
{
    pthread_mutex_lock(&segments.lock);
}

static void unlock_segments(void)
{
    pthread_mutex_unlock(&segments.lock);
}

/* In the child. Where a private mapping is refused (strict overcommit) the memory can be read only:
 * no write of the child's may reach the parent. */
static void part_segments(void)
{
    for (size_t i = 0; i < segments.n; i++) {
        const struct segment *s = &segments.list[i];

        if (mmap(s->base, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, s->fd, 0) ==
            MAP_FAILED)
            mprotect(s->base, s->bytes, PROT_READ);
    }
    unlock_segments();
}

/* Under the lock. */
static bool segment_make_room(void)
{
    size_t room = segments.room ? 2 * segments.room : 16;
    struct segment *list;

    if (!segments.watched && pthread_atfork(lock_segments, unlock_segments, part_segments))
        return false;
    segments.watched = true;
    if (segments.n < segments.room)
        return true;
    list = realloc(segments.list, room * sizeof *list);
    if (!list)
        return false;
    segments.list = list;
    segments.room = room;
    return true;
}

static int note_segment(void *base, size_t bytes, int fd)
{
    bool noted;

    lock_segments();
    noted = segment_make_room();
    if (noted)
        segments.list[segments.n++] = (struct segment){base, bytes, fd};
    unlock_segments();
    return noted ? 0 : br_error(ENOMEM, "no memory to note a segment of %zu bytes", bytes);
}

static void forget_segment(const void *base)
{
    lock_segments();
    for (size_t i = 0; i < segments.n; i++)
        if (segments.list[i].base == base) {
            segments.list[i] = segments.list[--segments.n];
            break;
        }
    if (!segments.n) {
        free(segments.list);
        segments.list = NULL;
        segments.room = 0;
    }
    unlock_segments();
}

/* ---- memory behind braid_alloc() ------------------------------------------------------------- */

int br_segment_alloc(size_t bytes, int numa_node, void **base, int *fd)
{
    size_t size = segment_bytes(bytes);
    int rc = check_room(bytes);

    if (rc)
        return rc;
    *fd = br_segment_create("braid", bytes);
    if (*fd < 0)
        return *fd;
    *base = br_segment_map(*fd, size, PROT_READ | PROT_WRITE);
    if (!*base) {
        rc = -ENOMEM;
        goto close_fd;
    }
    if (numa_node >= 0 && numa_available() >= 0)
        numa_tonode_memory(*base, size, numa_node);
    if (madvise(*base, size, MADV_POPULATE_WRITE) < 0 && errno != EINVAL) {
        rc = br_error(ENOMEM, "no memory for %zu bytes: %s", bytes, strerror(errno));
        goto unmap;
    }
    rc = note_segment(*base, size, *fd);
    if (rc)
        goto unmap;
    return 0;
unmap:
    munmap(*base, size);
close_fd:
    close(*fd);
    return rc;
}

int br_segment_alloc_private(size_t bytes, void **base, int *fd)
{
    size_t size = segment_bytes(bytes);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *place = NULL;

    if (size < bytes)
        return br_error(ENOMEM, "no memory for %zu bytes", bytes);
    if (check_room(bytes))
        return -ENOMEM;
    if (size >= HUGE_PAGE) {
        place = reserve_aligned(size);
        if (place == MAP_FAILED)
            return br_error(ENOMEM, "no address space for %zu bytes", bytes);
        flags |= MAP_FIXED;
    }
    *fd = -1;
    *base = mmap(place, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (*base != MAP_FAILED) {
        if (place)
            (void)madvise(*base, size, MADV_HUGEPAGE); /* as in br_segment_map() */
        if (madvise(*base, size, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
            return 0;
        place = *base;
    }
    br_error(ENOMEM, "no memory for %zu bytes: %s", bytes, strerror(errno));
    if (place)
        munmap(place, size);
    return -ENOMEM;
}

void br_segment_free(void *base, size_t bytes, int fd)
{
    if (fd >= 0)
        forget_segment(base); /* first: other memory may be mapped here as soon as this is gone */
    munmap(base, segment_bytes(bytes));
    if (fd >= 0)
        close(fd);
}
