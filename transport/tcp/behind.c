/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/tcp/behind.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static void push(struct br_tcp_behind *behind, int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* an error shows in the next call */
    br_tcp_behind_sent(behind, 0, false);
}

unsigned br_tcp_behind_check(struct br_tcp_behind *behind, int fd)
{
    int unacknowledged;

    behind->is_behind = !ioctl(fd, SIOCOUTQ, &unacknowledged) &&
                        behind->written - (uint64_t)unacknowledged < behind->pushed[0];
    if (!behind->kept || behind->is_behind)
        return 1;
    push(behind, fd);
    return 2;
}

unsigned br_tcp_behind_push(struct br_tcp_behind *behind, int fd, uint64_t now)
{
    if (!behind->since)
        behind->since = now;
    if (now != UINT64_MAX && now - behind->since < BR_TCP_KEPT_MOST)
        return 0;
    push(behind, fd);
    return 1;
}
