/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One host is one boot of one kernel. Abstract sockets belong to a network name space, so two
 * containers of one host reach each other only when they share theirs.
 */
#include "transport/shm/address.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define MAGIC   0x306d6873u /* "shm0" */

struct place {
    uint32_t magic;
    uint32_t unused;
    uint64_t name_space;
    char boot[36];
    char name[BR_SOCKET_NAME];
    uint8_t unused2[4];
};
static_assert(sizeof(struct place) <= BR_ADDRESS_BYTES, "an address fits");

static int shm_address_here(struct place *place)
{
    struct stat st;
    ssize_t n;
    int fd;

    memset(place, 0, sizeof *place);
    place->magic = MAGIC;
    if (stat("/proc/self/ns/net", &st) < 0)
        return br_error(EIO, "/proc/self/ns/net: %s", strerror(errno));
    place->name_space = st.st_ino;
    fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return br_error(EIO, BOOT_ID ": %s", strerror(errno));
    n = read(fd, place->boot, sizeof place->boot);
    close(fd);
    return n == (ssize_t)sizeof place->boot ? 0 : br_error(EIO, BOOT_ID " has %zd bytes", n);
}

int br_shm_address_make(const char name[BR_SOCKET_NAME], struct br_address *out)
{
    struct place place;
    int rc = shm_address_here(&place);

    if (rc)
        return rc;
    memcpy(place.name, name, BR_SOCKET_NAME);
    out->bytes = sizeof place;
    memcpy(out->data, &place, sizeof place);
    return 0;
}

int br_shm_address_resolve(const struct br_address *address, char name[BR_SOCKET_NAME])
{
    struct place there, place;
    int rc = shm_address_here(&place);

    if (rc)
        return rc;
    if (address->bytes != sizeof there)
        return br_error(EINVAL, "an address of %u bytes is none of shm", address->bytes);
    memcpy(&there, address->data, sizeof there);
    if (there.magic != MAGIC || !there.name[0])
        return br_error(EINVAL, "not an address of shm");
    if (memcmp(there.boot, place.boot, sizeof place.boot) != 0)
        return br_error(EHOSTUNREACH, "the peer runs on another host");
    if (there.name_space != place.name_space)
        return br_error(EHOSTUNREACH, "the peer runs in another network name space of this host");
    memcpy(name, there.name, BR_SOCKET_NAME);
    return 0;
}

static uint64_t place_host(const struct place *place)
{
    uint64_t words[2] = {br_digest_bytes(place->boot, sizeof place->boot), place->name_space};

    return br_digest(words, 2) | 1;
}

uint64_t br_shm_host(void)
{
    struct place place;

    return shm_address_here(&place) ? 0 : place_host(&place);
}

uint64_t br_shm_address_host(const struct br_address *address)
{
    struct place place;

    if (address->bytes != sizeof place)
        return 0;
    memcpy(&place, address->data, sizeof place);
    return place.magic == MAGIC ? place_host(&place) : 0;
}
