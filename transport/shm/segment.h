/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: shared memory of this host without a name. A segment is a memfd, so nothing stands in
 * /dev/shm or in the file system and the kernel frees it with its last user, SIGKILL included. It
 * is sealed against resizing, so that whoever maps it never meets a SIGBUS behind its end.
 */
#ifndef BR_TRANSPORT_SHM_SEGMENT_H
#define BR_TRANSPORT_SHM_SEGMENT_H

#include <stddef.h>

/*
 * Zeroed, resident memory behind braid_alloc(): huge pages where large, on numa_node unless
 * negative. *base and *fd are the caller's until br_segment_free(). -ENOMEM, -EMFILE with a
 * message. May take as long as touching all pages. A child of fork() has its own copy, as of any
 * other memory. From any thread.
 */
int br_segment_alloc(size_t bytes, int numa_node, void **base, int *fd);
/* The same where no other process is to map it, which comes at half the price: *fd is -1. */
int br_segment_alloc_private(size_t bytes, void **base, int *fd);
void br_segment_free(void *base, size_t bytes, int fd); /* as given to and by either */

/* A segment of exactly `bytes` rounded up to pages, not yet resident and not mapped. Returns its fd
 * or -errno. */
int br_segment_create(const char *name, size_t bytes);

/* Bytes of a segment that another process handed us; -EPROTO with a message when it is no sealed
 * memfd. */
int br_segment_check(int fd, size_t *bytes);

/* Maps bytes of fd, aligned for huge pages where large. NULL with a message on failure. Undo with
 * munmap(). */
void *br_segment_map(int fd, size_t bytes, int protection);
/* The same, readable and writable, with the last `ring` bytes, whole pages, once more behind: a
 * ring in them has no seam. Undo with munmap() of bytes + ring. */
void *br_segment_map_ring(int fd, size_t bytes, size_t ring);

#endif
