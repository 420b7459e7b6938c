/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: shared memory of this host without a name. A segment is a memfd, so nothing stands in
 * /dev/shm or in the file system and the kernel frees it with its last user, SIGKILL included. It
 * is sealed against resizing, so that whoever maps it never meets a SIGBUS behind its end.
 */
#ifndef BR_TRANSPORT_SEGMENT_H
#define BR_TRANSPORT_SEGMENT_H

#include <stddef.h>

/*
 * Allocates zeroed, resident memory for braid_alloc(), with huge pages where it is large, and on
 * numa_node unless that is negative. *base and *fd are the caller's until br_segment_free().
 * Returns 0, or -ENOMEM or -EMFILE with a message. Touches all pages. A child of fork() has its own
 * copy, as of any other memory. From any thread.
 */
int br_segment_alloc(size_t bytes, int numa_node, void **base, int *fd);
/* The same for memory that no other process maps, at half the cost: *fd is -1. */
int br_segment_alloc_private(size_t bytes, void **base, int *fd);

/* Frees what either function allocated, with the same arguments. */
void br_segment_free(void *base, size_t bytes, int fd);

/* Creates a segment of `bytes` rounded up to pages, which is neither resident nor mapped yet.
 * Returns its descriptor, which the caller closes, or a negative errno with a message. */
int br_segment_create(const char *name, size_t bytes);

/* Reads the size of a segment that another process has sent. Returns 0, or -EPROTO with a message
 * when it is no sealed memfd. */
int br_segment_check(int fd, size_t *bytes);

/* Maps bytes of fd, aligned for huge pages where it is large. Returns NULL with a message on
 * failure. The caller unmaps with munmap(). */
void *br_segment_map(int fd, size_t bytes, int protection);

#endif
