/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/host.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

int br_host_read(struct br_host *out)
{
    struct stat st;
    ssize_t n;
    int fd;

    memset(out, 0, sizeof *out);
    if (stat("/proc/self/ns/net", &st) < 0)
        return br_error(EIO, "/proc/self/ns/net: %s", strerror(errno));
    out->name_space = st.st_ino;
    fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return br_error(EIO, BOOT_ID ": %s", strerror(errno));
    n = read(fd, out->boot, sizeof out->boot);
    close(fd);
    return n == (ssize_t)sizeof out->boot ? 0 : br_error(EIO, BOOT_ID " has %zd bytes", n);
}

uint64_t br_host_number(const struct br_host *host)
{
    uint64_t words[2] = {br_digest_bytes(host->boot, sizeof host->boot), host->name_space};

    return br_digest(words, 2) | 1;
}
