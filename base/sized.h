/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public structs that a caller allocates begin with `size_t struct_size`, so that a program and a
 * library of different versions understand each other, as the kernel's perf_event_attr.size does:
 *
 *     0                   the struct as of version 1.0
 *     less than we know   an older header: what it lacks is zero
 *     more than we know   a newer header: accepted while the bytes that we do not know are zero
 *
 * `first` is what 0 means, `known` the size of this library's struct. `who` names the call and
 * `what` the struct in messages. No locks: the struct is the caller's for the time of the call.
 */
#ifndef BR_BASE_SIZED_H
#define BR_BASE_SIZED_H

#include <stdbool.h>
#include <stddef.h>

/* The bytes of a struct that has been given. Never NULL. */
static inline size_t br_sized_bytes(const void *given, size_t first)
{
    size_t bytes = *(const size_t *)given;

    return bytes ? bytes : first;
}

/* May *given be read in place, without a copy? It is as long as this library's struct. */
static inline bool br_sized_fits(const void *given, size_t first, size_t known)
{
    return br_sized_bytes(given, first) == known;
}

/* Fills copy[0..known) from the caller's struct; given NULL: zeros. Returns 0, or -EINVAL with a
 * message: struct_size is no size, or a byte is set that this library does not know. */
int br_sized_read(const char *who, const char *what, const void *given, size_t first, size_t known,
                  void *copy);

/* Checks the struct_size of a struct that is to be filled, and writes the struct's bytes, which are
 * the stride of an array of them, to *bytes. Returns 0, or -EINVAL with a message. */
int br_sized_room(const char *who, const char *what, const void *out, size_t first, size_t *bytes);

/* Copies full[0..known) behind the struct_size of out, which has `bytes` bytes: as much as there is
 * room for. What the caller knows and we do not stays as it is. */
void br_sized_write(void *out, size_t bytes, const void *full, size_t known);

#endif
