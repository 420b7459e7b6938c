/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/netlink.h"

#include "base/error.h"

#include <errno.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/bridge.h>
#include <netlink/route/link/veth.h>
#include <netlink/route/qdisc.h>
#include <netlink/route/qdisc/tbf.h>
#include <netlink/route/tc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* must exceed a 64 KiB packet before segmentation, else segmenting burns a core */
#define BURST_SMALL (128 << 10)
#define BURST_LARGE (256 << 10)
#define SMALL_RATE  500000000ull /* bit/s: up to here the small burst is enough */
#define QUEUE_MS    50           /* of a port; the longest that a packet waits in it */

int br_net_error(const struct br_net *net, int rc, const char *what, const char *link)
{
    int err = EIO;

    if (rc == -NLE_PERM)
        err = EPERM;
    else if (rc == -NLE_EXIST)
        err = EEXIST;
    else if (rc == -NLE_OBJ_NOTFOUND || rc == -NLE_NODEV)
        err = ENODEV;
    else if (rc == -NLE_NOMEM)
        err = ENOMEM;
    else if (rc == -NLE_OPNOTSUPP)
        err = EOPNOTSUPP;
    return br_error(err, "%s: cannot %s %s: %s", net->name, what, link, nl_geterror(rc));
}

/* ---- sockets --------------------------------------------------------------------------------- */

static int netlink_open_socket(void *with)
{
    struct br_net *net = with;
    int rc;

    net->sock = nl_socket_alloc();
    rc = net->sock ? nl_connect(net->sock, NETLINK_ROUTE) : -NLE_NOMEM;
    return rc < 0 ? br_net_error(net, rc, "open", "netlink") : 0;
}

int br_net_open(struct br_net *net, const char *name)
{
    int rc;

    *net = (struct br_net){0};
    snprintf(net->name, sizeof net->name, "%s", name);
    rc = br_namespace_visit(name, netlink_open_socket, net);
    if (rc < 0)
        br_net_close(net);
    return rc;
}

void br_net_close(struct br_net *net)
{
    nl_socket_free(net->sock);
    net->sock = NULL;
}

/* ---- links ----------------------------------------------------------------------------------- */

/* The link as it is; to be put. */
static int get_link(struct br_net *net, const char *name, struct rtnl_link **link)
{
    int rc = rtnl_link_get_kernel(net->sock, 0, name, link);

    return rc < 0 ? br_net_error(net, rc, "find", name) : 0;
}

int br_net_index(struct br_net *net, const char *name)
{
    struct rtnl_link *link;
    int rc = get_link(net, name, &link);

    if (rc < 0)
        return rc;
    rc = rtnl_link_get_ifindex(link);
    rtnl_link_put(link);
    return rc;
}

int br_net_add_bridge(struct br_net *net, const char *bridge)
{
    struct rtnl_link *link = rtnl_link_bridge_alloc();
    int rc = -NLE_NOMEM;

    if (link) {
        rtnl_link_set_name(link, bridge);
        rtnl_link_set_flags(link, IFF_UP);
        rc = rtnl_link_add(net->sock, link, NLM_F_CREATE | NLM_F_EXCL);
        rtnl_link_put(link);
    }
    return rc < 0 ? br_net_error(net, rc, "make bridge", bridge) : 0;
}

/* Fills in what is known of the far end of a cable. `space`: where it shall be. */
static int netlink_set_nic(struct rtnl_link *nic, const char *name, int space, const char *mac,
                           uint32_t mtu)
{
    struct nl_addr *address;
    int rc = nl_addr_parse(mac, AF_LLC, &address);

    if (rc < 0)
        return rc;
    rtnl_link_set_name(nic, name);
    rtnl_link_set_ns_fd(nic, space);
    rtnl_link_set_addr(nic, address);
    rtnl_link_set_mtu(nic, mtu);
    nl_addr_put(address);
    return 0;
}

int br_net_add_cable(struct br_net *net, const char *port, const char *bridge,
                     const struct br_net *host, const char *nic, const char *mac, uint32_t mtu)
{
    int master = br_net_index(net, bridge), space, rc = -NLE_NOMEM;
    struct rtnl_link *link, *peer;

    if (master < 0)
        return master;
    space = br_namespace_open(host->name);
    if (space < 0)
        return space;
    link = rtnl_link_veth_alloc();
    if (link) {
        peer = rtnl_link_veth_get_peer(link);
        rtnl_link_set_name(link, port);
        rtnl_link_set_master(link, master);
        rtnl_link_set_mtu(link, mtu);
        rtnl_link_set_flags(link, IFF_UP);
        rc = netlink_set_nic(peer, nic, space, mac, mtu);
        if (rc == 0)
            rc = rtnl_link_add(net->sock, link, NLM_F_CREATE | NLM_F_EXCL);
        rtnl_link_put(peer);
        rtnl_link_veth_release(link);
    }
    close(space);
    return rc < 0 ? br_net_error(net, rc, "make the cable of port", port) : 0;
}

/* Asks the kernel for `changes` of the link, which it puts. */
static int change_link(struct br_net *net, struct rtnl_link *link, struct rtnl_link *changes,
                       const char *what)
{
    int rc = changes ? rtnl_link_change(net->sock, link, changes, 0) : -NLE_NOMEM;

    if (rc < 0)
        rc = br_net_error(net, rc, what, rtnl_link_get_name(link));
    if (changes)
        rtnl_link_put(changes);
    rtnl_link_put(link);
    return rc;
}

int br_net_set_up(struct br_net *net, const char *name, bool up)
{
    struct rtnl_link *link, *changes;
    int rc = get_link(net, name, &link);

    if (rc < 0)
        return rc;
    changes = rtnl_link_alloc();
    if (changes && up)
        rtnl_link_set_flags(changes, IFF_UP);
    else if (changes)
        rtnl_link_unset_flags(changes, IFF_UP);
    return change_link(net, link, changes, up ? "bring up" : "take down");
}

int br_net_set_mtu(struct br_net *net, const char *name, uint32_t mtu)
{
    struct rtnl_link *link, *changes;
    int rc = get_link(net, name, &link);

    if (rc < 0)
        return rc;
    changes = rtnl_link_alloc();
    if (changes)
        rtnl_link_set_mtu(changes, mtu);
    return change_link(net, link, changes, "set the MTU of");
}

int br_net_set_mac(struct br_net *net, const char *name, const char *mac)
{
    struct rtnl_link *link, *changes;
    struct nl_addr *address;
    int rc = get_link(net, name, &link);

    if (rc < 0)
        return rc;
    rc = nl_addr_parse(mac, AF_LLC, &address);
    if (rc < 0 || nl_addr_cmp(rtnl_link_get_addr(link), address) == 0) {
        if (rc == 0)
            nl_addr_put(address);
        rtnl_link_put(link);
        return rc < 0 ? br_error(EINVAL, "%s: '%s' is no MAC", net->name, mac) : 0;
    }
    changes = rtnl_link_alloc();
    if (changes)
        rtnl_link_set_addr(changes, address);
    nl_addr_put(address);
    return change_link(net, link, changes, "set the MAC of");
}

int br_net_has(struct br_net *net, const char *name)
{
    struct rtnl_link *link;
    int rc = rtnl_link_get_kernel(net->sock, 0, name, &link);

    if (rc == -NLE_OBJ_NOTFOUND || rc == -NLE_NODEV)
        return 0;
    if (rc < 0)
        return br_net_error(net, rc, "find", name);
    rtnl_link_put(link);
    return 1;
}

int br_net_remove(struct br_net *net, const char *port)
{
    struct rtnl_link *link;
    int rc = get_link(net, port, &link);

    if (rc < 0)
        return rc;
    rc = rtnl_link_delete(net->sock, link);
    rtnl_link_put(link);
    return rc < 0 ? br_net_error(net, rc, "remove", port) : 0;
}

static int rename_link(struct br_net *net, struct rtnl_link *link, const char *name)
{
    struct rtnl_link *changes = rtnl_link_alloc();
    int rc = br_net_set_up(net, rtnl_link_get_name(link), false);

    if (changes)
        rtnl_link_set_name(changes, name);
    if (rc < 0) {
        if (changes)
            rtnl_link_put(changes);
        rtnl_link_put(link);
        return rc;
    }
    return change_link(net, link, changes, "rename");
}

int br_net_set_nic_name(struct br_net *net, const char *port, struct br_net *host, const char *name)
{
    struct rtnl_link *link;
    int rc = get_link(net, port, &link), far;

    if (rc < 0)
        return rc;
    far = rtnl_link_get_link(link);
    rtnl_link_put(link);
    rc = rtnl_link_get_kernel(host->sock, far, NULL, &link);
    if (rc < 0)
        return br_net_error(host, rc, "find the NIC of", port);
    if (strcmp(rtnl_link_get_name(link), name) != 0)
        return rename_link(host, link, name);
    rtnl_link_put(link);
    return 0;
}

int br_net_set_bridge(struct br_net *net, const char *port, const char *bridge)
{
    int master = br_net_index(net, bridge), rc;
    struct rtnl_link *link, *changes;

    if (master < 0)
        return master;
    rc = get_link(net, port, &link);
    if (rc < 0)
        return rc;
    if (rtnl_link_get_master(link) == master) {
        rtnl_link_put(link);
        return 0;
    }
    changes = rtnl_link_alloc();
    if (changes)
        rtnl_link_set_master(changes, master);
    return change_link(net, link, changes, "plug");
}

/* ---- addresses ------------------------------------------------------------------------------- */

static struct rtnl_addr *netlink_address_of(int link, struct nl_addr *local)
{
    struct rtnl_addr *address = rtnl_addr_alloc();

    if (address) {
        rtnl_addr_set_ifindex(address, link);
        if (rtnl_addr_set_local(address, local) < 0) {
            rtnl_addr_put(address);
            return NULL;
        }
    }
    return address;
}

/* Deletes the IPv4 addresses of the link but `keep` (NULL: all). Returns 1 when that one is
 * there. */
static int delete_others(struct br_net *net, int link, struct nl_addr *keep)
{
    struct nl_cache *all;
    int rc = rtnl_addr_alloc_cache(net->sock, &all), there = 0;

    if (rc < 0)
        return rc;
    for (struct nl_object *each = nl_cache_get_first(all); each && rc == 0;
         each = nl_cache_get_next(each)) {
        struct rtnl_addr *address = (struct rtnl_addr *)each;

        if (rtnl_addr_get_ifindex(address) != link || rtnl_addr_get_family(address) != AF_INET)
            continue;
        if (keep && nl_addr_cmp(rtnl_addr_get_local(address), keep) == 0)
            there = 1;
        else
            rc = rtnl_addr_delete(net->sock, address, 0);
    }
    nl_cache_free(all);
    return rc < 0 ? rc : there;
}

static int netlink_add_address(struct br_net *net, int link, struct nl_addr *local)
{
    struct rtnl_addr *address = netlink_address_of(link, local);
    int rc = address ? rtnl_addr_add(net->sock, address, 0) : -NLE_NOMEM;

    if (address)
        rtnl_addr_put(address);
    return rc;
}

int br_net_set_address(struct br_net *net, const char *name, const char *text)
{
    int link = br_net_index(net, name), rc = 0;
    struct nl_addr *local = NULL;

    if (link < 0)
        return link;
    if (*text)
        rc = nl_addr_parse(text, AF_INET, &local);
    if (rc < 0)
        return br_error(EINVAL, "%s: '%s' is no address such as 10.0.0.1/24", net->name, text);
    rc = delete_others(net, link, local);
    if (rc == 0 && local)
        rc = netlink_add_address(net, link, local);
    nl_addr_put(local);
    return rc < 0 ? br_net_error(net, rc, "set the address of", name) : 0;
}

/* ---- shaping --------------------------------------------------------------------------------- */

static void set_tbf(struct rtnl_qdisc *qdisc, uint64_t rate)
{
    int burst = rate <= SMALL_RATE ? BURST_SMALL : BURST_LARGE;

    rtnl_tc_set_kind(TC_CAST(qdisc), "tbf");
    rtnl_qdisc_tbf_set_rate(qdisc, (int)(rate / 8), burst, 0);
    rtnl_qdisc_tbf_set_limit(qdisc, burst + (int)(rate / 8000 * QUEUE_MS));
}

int br_net_set_rate(struct br_net *net, const char *name, uint64_t rate)
{
    int link = br_net_index(net, name), rc = -NLE_NOMEM;
    struct rtnl_qdisc *qdisc;

    if (link < 0)
        return link;
    qdisc = rtnl_qdisc_alloc();
    if (qdisc) {
        rtnl_tc_set_ifindex(TC_CAST(qdisc), link);
        rtnl_tc_set_parent(TC_CAST(qdisc), TC_H_ROOT);
        if (rate) {
            set_tbf(qdisc, rate);
            rc = rtnl_qdisc_add(net->sock, qdisc, NLM_F_CREATE | NLM_F_REPLACE);
        } else {
            rc = rtnl_qdisc_delete(net->sock, qdisc);
            rc = rc == -NLE_OBJ_NOTFOUND || rc == -NLE_INVAL ? 0 : rc; /* it had none */
        }
        rtnl_qdisc_put(qdisc);
    }
    return rc < 0 ? br_net_error(net, rc, "set the rate of", name) : 0;
}
