/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/id.h"

#include "base/digest.h"
#include "base/error.h"
#include "base/process.h"
#include "protocol/bootstrap/store_socket.h"

#include <arpa/inet.h>
#include <assert.h>
#include <braid/braid.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ID_VERSION 1

struct id_bytes {
    char magic[4];
    uint8_t version, n_addresses;
    uint16_t port;
    uint8_t key[BR_SECRET_KEY_BYTES];
    struct in6_addr addresses[BR_ID_ADDRESSES];
    uint32_t reserved;
    uint32_t checksum;
};
static_assert(sizeof(struct id_bytes) == sizeof(struct braid_id), "wire format");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire formats are read in place");

static const char id_magic[4] = {'B', 'R', 'I', 'D'};

/* Ids whose socket listens, under br_process_lock(). */
static struct open_id {
    struct br_secret secret;
    uint64_t number; /* in the order of their making; 0: free */
    unsigned forks;
    int fd;
} open_ids[BR_ID_OPEN_MAX];
static uint64_t ids_made;

/* ---- the bytes ------------------------------------------------------------------------------- */

static uint32_t id_checksum(const struct id_bytes *bytes)
{
    return (uint32_t)br_digest_bytes(bytes, offsetof(struct id_bytes, checksum));
}

void br_id_write(const struct br_id *id, struct braid_id *out)
{
    struct id_bytes bytes = {
        .version = ID_VERSION, .n_addresses = id->n_addresses, .port = id->port};

    memcpy(bytes.magic, id_magic, sizeof id_magic);
    memcpy(bytes.key, id->secret.key, sizeof bytes.key);
    memcpy(bytes.addresses, id->addresses, id->n_addresses * sizeof bytes.addresses[0]);
    bytes.checksum = id_checksum(&bytes);
    memcpy(out, &bytes, sizeof bytes);
    sodium_memzero(&bytes, sizeof bytes);
}

int br_id_read(const struct braid_id *id, struct br_id *out)
{
    struct id_bytes bytes;
    int rc = 0;

    memset(out, 0, sizeof *out);
    memcpy(&bytes, id, sizeof bytes);
    if (sodium_is_zero(id->bytes, sizeof id->bytes))
        rc = br_error(EINVAL, "the braid_id is empty: rank 0 has not made it (braid_id_create()), "
                              "or could not");
    else if (memcmp(bytes.magic, id_magic, sizeof id_magic) != 0)
        rc = br_error(EINVAL,
                      "these bytes are no braid_id: hand over all %zu that "
                      "braid_id_create() gave to rank 0",
                      sizeof *id);
    else if (bytes.version != ID_VERSION)
        rc = br_error(EPROTONOSUPPORT,
                      "the braid_id is of version %u, we know %d: install the same braid on all "
                      "hosts",
                      bytes.version, ID_VERSION);
    else if (bytes.checksum != id_checksum(&bytes) || bytes.reserved || !bytes.port ||
             !bytes.n_addresses || bytes.n_addresses > BR_ID_ADDRESSES)
        rc = br_error(EINVAL,
                      "the braid_id was changed on its way here: its checksum is wrong; hand over "
                      "all %zu bytes as they are",
                      sizeof *id);
    if (rc == 0) {
        out->port = bytes.port;
        out->n_addresses = bytes.n_addresses;
        memcpy(out->addresses, bytes.addresses, sizeof out->addresses);
        memcpy(out->secret.key, bytes.key, sizeof out->secret.key);
    }
    sodium_memzero(&bytes, sizeof bytes);
    return rc;
}

void br_id_text(const struct br_id *id, char text[BR_ID_TEXT])
{
    size_t used = 0;

    text[0] = 0;
    for (int i = 0; i < id->n_addresses; i++) {
        struct sockaddr_in6 address = {
            .sin6_family = AF_INET6, .sin6_port = htons(id->port), .sin6_addr = id->addresses[i]};
        char name[BR_SOCKET_NAME];

        br_socket_name((struct sockaddr *)&address, sizeof address, name);
        used += (size_t)snprintf(text + used, BR_ID_TEXT - used, "%s%.60s", i ? ", " : "", name);
    }
}
static_assert(BR_ID_ADDRESSES * (60 + 2) < BR_ID_TEXT, "all addresses fit");

/* ---- addresses of this host ------------------------------------------------------------------ */

struct candidate {
    struct in6_addr address;
    int worth; /* more is better */
};

/* Is there hardware behind it? Bridges of containers have none, and their addresses are the same on
 * many hosts. */
static bool is_hardware(const char *interface)
{
    char path[64];

    snprintf(path, sizeof path, "/sys/class/net/%.15s/device", interface);
    return access(path, F_OK) == 0;
}

static bool read_candidate(const struct ifaddrs *at, struct candidate *out)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)at->ifa_addr;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)at->ifa_addr;
    bool is_four = at->ifa_addr && at->ifa_addr->sa_family == AF_INET;

    if (!is_four && (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET6))
        return false;
    /* one of a link alone would need its interface's number, which is another one elsewhere */
    if (!(at->ifa_flags & IFF_UP) || (!is_four && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)))
        return false;
    memset(out, 0, sizeof *out);
    if (is_four) {
        out->address.s6_addr[10] = out->address.s6_addr[11] = 0xff;
        memcpy(&out->address.s6_addr[12], &four->sin_addr, 4);
    } else {
        out->address = six->sin6_addr;
    }
    if (!(at->ifa_flags & IFF_LOOPBACK))
        out->worth =
            8 + (at->ifa_flags & IFF_RUNNING ? 4 : 0) + (is_hardware(at->ifa_name) ? 2 : 0);
    out->worth += is_four;
    return true;
}

/* Puts a candidate behind those that are as good. */
static void insert(struct candidate list[BR_ID_ADDRESSES], int *n, const struct candidate *new)
{
    int place = 0;

    while (place < *n && list[place].worth >= new->worth)
        place++;
    if (place == BR_ID_ADDRESSES)
        return;
    if (*n < BR_ID_ADDRESSES)
        ++*n;
    memmove(&list[place + 1], &list[place], (size_t)(*n - place - 1) * sizeof *list);
    list[place] = *new;
}

/* local: only addresses of loopback. Else these only where there is no other. */
static int list_addresses(bool local, struct br_id *out)
{
    struct candidate list[BR_ID_ADDRESSES], next;
    struct ifaddrs *all;
    int n = 0;

    if (getifaddrs(&all) < 0)
        return br_error(errno, "the addresses of this host cannot be listed: %s", strerror(errno));
    for (const struct ifaddrs *at = all; at; at = at->ifa_next)
        if (read_candidate(at, &next) && (!local || next.worth < 8))
            insert(list, &n, &next);
    freeifaddrs(all);
    while (n > 1 && list[0].worth >= 8 && list[n - 1].worth < 8)
        n--;
    for (int i = 0; i < n; i++)
        out->addresses[i] = list[i].address;
    out->n_addresses = (uint8_t)n;
    return n ? 0
             : br_error(ENETDOWN, "this host has no address%s: bring an interface up (ip link)",
                        local ? " of loopback" : "");
}

/* ---- open ids -------------------------------------------------------------------------------- */

int br_id_open(bool local, uint16_t port, struct braid_id *out)
{
    struct open_id *place = &open_ids[0];
    struct br_id id = {.port = port};
    int fd = -1, old = -1, rc = br_process_watch();

    memset(out, 0, sizeof *out);
    if (rc == 0 && sodium_init() < 0)
        rc = br_error(EIO, "libsodium does not start: the system has no random numbers");
    if (rc == 0)
        rc = list_addresses(local, &id);
    if (rc == 0)
        rc = br_socket_listen_anywhere(local ? &id.addresses[0] : NULL, &id.port, &fd);
    if (rc < 0)
        return br_error_prefix(rc, "no braid_id: ");
    if (local)
        id.n_addresses = 1;
    randombytes_buf(id.secret.key, sizeof id.secret.key);
    br_id_write(&id, out);
    br_process_lock();
    for (int i = 1; i < BR_ID_OPEN_MAX; i++)
        if (open_ids[i].number < place->number)
            place = &open_ids[i];
    if (place->number)
        old = place->fd;
    *place = (struct open_id){.number = ++ids_made, .forks = br_process_forks, .fd = fd};
    place->secret = id.secret;
    br_process_unlock();
    if (old >= 0)
        close(old);
    br_secret_wipe(&id.secret);
    return 0;
}

/* Removes the id from the table; returns its socket, -1: it is not there. */
static int remove_open(const struct br_id *id, unsigned *forks)
{
    int fd = -1;

    br_process_lock();
    for (int i = 0; i < BR_ID_OPEN_MAX; i++)
        if (open_ids[i].number &&
            sodium_memcmp(&open_ids[i].secret, &id->secret, sizeof id->secret) == 0) {
            fd = open_ids[i].fd;
            *forks = open_ids[i].forks;
            sodium_memzero(&open_ids[i], sizeof open_ids[i]);
            break;
        }
    br_process_unlock();
    return fd;
}

int br_id_take(const struct br_id *id, int *fd)
{
    unsigned forks = 0;
    int found = remove_open(id, &forks);

    if (found < 0)
        return br_error(EINVAL,
                        "rank 0 cannot use this braid_id: another process has made it, or it was "
                        "used or freed before, or %d newer ones have been made; the process of "
                        "rank 0 calls braid_id_create(), once for each job",
                        BR_ID_OPEN_MAX);
    if (forks != br_process_forks) {
        close(found);
        return br_error(EPERM, "rank 0 cannot use this braid_id: this process is a fork of the one "
                               "that has made it; make one here");
    }
    *fd = found;
    return 0;
}

bool br_id_close(const struct br_id *id)
{
    unsigned forks;
    int fd = remove_open(id, &forks);

    if (fd < 0)
        return false;
    close(fd);
    return true;
}
