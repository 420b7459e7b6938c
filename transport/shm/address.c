/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/address.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "transport/host.h"

#define MAGIC 0x306d6873u /* "shm0" */

struct place {
    uint32_t magic;
    uint32_t unused;
    uint64_t name_space;
    char boot[36];
    char name[BR_SHM_SOCKET_NAME];
    uint8_t unused2[4];
};
static_assert(sizeof(struct place) <= BR_ADDRESS_BYTES, "an address fits");

int br_shm_address_make(const char name[BR_SHM_SOCKET_NAME], struct br_address *out)
{
    struct place place = {.magic = MAGIC};
    struct br_host host;
    int rc = br_host_read(&host);

    if (rc)
        return rc;
    place.name_space = host.name_space;
    memcpy(place.boot, host.boot, sizeof place.boot);
    memcpy(place.name, name, BR_SHM_SOCKET_NAME);
    out->host = br_host_number(&host);
    out->bytes = sizeof place;
    memcpy(out->data, &place, sizeof place);
    return 0;
}

int br_shm_address_resolve(const struct br_address *address, char name[BR_SHM_SOCKET_NAME])
{
    struct br_host here;
    struct place there;
    int rc = br_host_read(&here);

    if (rc)
        return rc;
    if (address->bytes != sizeof there)
        return br_error(EINVAL, "an address of %u bytes is none of shm", address->bytes);
    memcpy(&there, address->data, sizeof there);
    if (there.magic != MAGIC || !there.name[0])
        return br_error(EINVAL, "not an address of shm");
    if (memcmp(there.boot, here.boot, sizeof here.boot) != 0)
        return br_error(EHOSTUNREACH, "the peer runs on another host");
    if (there.name_space != here.name_space)
        return br_error(EHOSTUNREACH, "the peer runs in another network name space of this host");
    memcpy(name, there.name, BR_SHM_SOCKET_NAME);
    return 0;
}
