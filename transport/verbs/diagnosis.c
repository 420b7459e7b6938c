/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/diagnosis.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* what a rank registers at least: receive buffers, bounce buffers, a few regions */
#define MEMLOCK (64u << 20)

const char *br_verbs_state_name(enum br_verbs_state state)
{
    static const char *const names[] = {"unknown", "down",   "init",
                                        "armed",   "active", "active (deferred)"};

    return (size_t)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

static void diagnosis_set(struct br_verbs_diagnosis *out, const char *what, ...)
    __attribute__((format(printf, 2, 3)));
static void diagnosis_set(struct br_verbs_diagnosis *out, const char *what, ...)
{
    va_list args;

    va_start(args, what);
    vsnprintf(out->what, sizeof out->what, what, args);
    va_end(args);
}

static void diagnosis_remedy(struct br_verbs_diagnosis *out, const char *how, ...)
    __attribute__((format(printf, 2, 3)));
static void diagnosis_remedy(struct br_verbs_diagnosis *out, const char *how, ...)
{
    va_list args;

    va_start(args, how);
    vsnprintf(out->remedy, sizeof out->remedy, how, args);
    va_end(args);
}

static void not_opened(const struct br_verbs_host *host, const struct br_verbs_port *port,
                       struct br_verbs_diagnosis *out)
{
    if (!host->inventory.nodes || port->error == ENOENT) {
        diagnosis_set(out, "there is no /dev/infiniband/uverbs* to reach it by");
        diagnosis_remedy(out, "modprobe ib_uverbs; into a container: --device /dev/infiniband");
    } else if (port->error == ENODEV) {
        diagnosis_set(out,
                      "libibverbs does not know it: the user-space part of its driver is missing");
        diagnosis_remedy(out, "apt-get install ibverbs-providers; `ibv_devices` then lists it");
    } else if (port->error == EACCES || port->error == EPERM) {
        diagnosis_set(out, "no permission to open it");
        diagnosis_remedy(out, "chmod a+rw /dev/infiniband/uverbs* (rdma-core's udev rules do so): "
                              "apt-get install rdma-core");
    } else {
        diagnosis_set(out, "it cannot be opened: %s", strerror(port->error));
        diagnosis_remedy(out, "dmesg says why");
    }
}

static void diagnosis_down(const struct br_verbs_host *host, const struct br_verbs_port *port,
                           struct br_verbs_diagnosis *out)
{
    const struct br_verbs_interface *interface = br_verbs_interface(&host->inventory, port->netdev);

    if (port->infiniband && (port->state == BR_VERBS_INIT || port->state == BR_VERBS_ARMED)) {
        diagnosis_set(out, "its port waits for a subnet manager (%s)",
                      br_verbs_state_name(port->state));
        diagnosis_remedy(out, "on one host or switch of the fabric: apt-get install opensm");
    } else if (port->infiniband) {
        diagnosis_set(out, "its port is down");
        diagnosis_remedy(
            out, "plug in the cable, or enable the switch's port; ibportstate shows both ends");
    } else if (interface && !interface->up) {
        diagnosis_set(out, "its interface %s is down", interface->name);
        diagnosis_remedy(out, "ip link set %s up", interface->name);
    } else if (!interface && *port->netdev) {
        diagnosis_set(out, "its port is down, and its interface %s is in another network namespace",
                      port->netdev);
        diagnosis_remedy(out, "where the interface is: ip link set %s up", port->netdev);
    } else {
        diagnosis_set(out, "its port is down: %s has no carrier",
                      *port->netdev ? port->netdev : "it");
        diagnosis_remedy(out, "plug in the cable, or enable the switch's port");
    }
}

/* An address that could serve if it were of this type, or in this network namespace. */
static bool diagnosis_has_address(const struct br_verbs_port *port, enum br_gid_type type,
                                  bool foreign)
{
    for (int i = 0; i < port->n_gids; i++)
        if (br_gid_is_routable(port->gids[i].raw) && port->gids[i].type == type &&
            port->gids[i].foreign == foreign)
            return true;
    return false;
}

static void no_gid(const struct br_verbs_port *port, struct br_verbs_diagnosis *out)
{
    const char *netdev = *port->netdev ? port->netdev : "NIC";

    if (diagnosis_has_address(port, BR_GID_ROCE_V1, false)) {
        diagnosis_set(out, "it has addresses, but RoCE v1 GIDs of them only");
        diagnosis_remedy(
            out, "cma_roce_mode -d %s -p %d -m 2; cards that know RoCE v1 only cannot be used",
            port->device, port->port);
    } else if (diagnosis_has_address(port, BR_GID_ROCE_V2, true)) {
        diagnosis_set(out, "its addresses are in another network namespace");
        diagnosis_remedy(
            out,
            "run there: ip netns exec NAME ...; or take a device whose interface is in this one");
    } else if (port->infiniband) {
        diagnosis_set(out, "its port has no GID");
        diagnosis_remedy(out, "see what the subnet manager gave it: ibv_devinfo -v -d %s",
                         port->device);
    } else {
        diagnosis_set(
            out,
            "it has no GID that a router takes: %s has neither an IPv4 nor a global IPv6 address",
            netdev);
        diagnosis_remedy(out, "ip addr add ADDRESS/24 dev %s", netdev);
    }
}

void br_verbs_port_diagnosis(const struct br_verbs_host *host, const struct br_verbs_port *port,
                             struct br_verbs_diagnosis *out)
{
    bool chosen = false;

    memset(out, 0, sizeof *out);
    for (int f = 0; f < BR_GID_FAMILIES; f++)
        chosen |= port->choice.entry[f] >= 0;
    if (!port->port) {
        not_opened(host, port, out);
    } else if (port->error) {
        diagnosis_set(out, "its port cannot be asked: %s", strerror(port->error));
        diagnosis_remedy(out, "dmesg says why");
    } else if (!port->reliable) {
        diagnosis_set(out,
                      "it has no reliable connections with RDMA WRITE WITH IMM (iWARP or usNIC)");
        diagnosis_remedy(out, "take RoCE or InfiniBand; irdma: modprobe irdma roce_ena=1");
    } else if (port->state != BR_VERBS_ACTIVE) {
        diagnosis_down(host, port, out);
    } else if (!chosen) {
        no_gid(port, out);
    }
}

/* Which module makes an RDMA device of a card whose network driver is loaded; NULL: none that we
 * know. */
static const char *rdma_driver(const char *driver)
{
    static const struct {
        const char *net, *rdma;
    } drivers[] = {
        {"mlx5_core", "mlx5_ib"}, {"mlx4_core", "mlx4_ib"},   {"mlx4_en", "mlx4_ib"},
        {"bnxt_en", "bnxt_re"},   {"ice", "irdma"},           {"i40e", "irdma"},
        {"qede", "qedr"},         {"hns3", "hns-roce-hw-v2"}, {"mana", "mana_ib"},
    };

    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        if (!strcmp(drivers[i].net, driver))
            return drivers[i].rdma;
    return NULL;
}

/* An interface for soft-RoCE: one that is up, with an address. */
static const char *any_interface(const struct br_verbs_inventory *s)
{
    const char *best = "eth0";

    for (int i = s->n_interfaces - 1; i >= 0; i--)
        if (s->interfaces[i].up && s->interfaces[i].carrier && !s->interfaces[i].loopback)
            best = s->interfaces[i].name;
    return best;
}

static void no_devices(const struct br_verbs_inventory *s, struct br_verbs_diagnosis *out)
{
    for (int i = 0; i < s->n_interfaces; i++) {
        const char *module = rdma_driver(s->interfaces[i].driver);
        if (!module)
            continue;
        diagnosis_set(out, "no RDMA devices, though %s (%s) may be one", s->interfaces[i].name,
                      s->interfaces[i].driver);
        diagnosis_remedy(out, "modprobe %s", module);
        return;
    }
    if (s->soft_roce) {
        diagnosis_set(out, "no RDMA devices; soft-RoCE would make one of any interface");
        diagnosis_remedy(out, "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev %s",
                         any_interface(s));
    } else if (s->core) {
        diagnosis_set(out, "no RDMA devices, and Linux %s has no soft-RoCE (rdma_rxe)", s->kernel);
        diagnosis_remedy(out,
                         "load the driver of the card; or boot Debian's kernel: apt-get install "
                         "linux-image-amd64");
    } else {
        diagnosis_set(out, "Linux %s has no RDMA: neither devices nor the module rdma_rxe",
                      s->kernel);
        diagnosis_remedy(out,
                         "apt-get install linux-image-amd64 and boot it (Debian's cloud kernels "
                         "have no RDMA); in a "
                         "container the host's kernel counts");
    }
}

static void build_or_library(const struct br_verbs_host *host, struct br_verbs_diagnosis *out)
{
    if (!host->built) {
        diagnosis_set(out, "this build of braid has no verbs back end");
        diagnosis_remedy(
            out,
            "apt-get install libibverbs-dev librdmacm-dev, then configure and build braid again");
    } else {
        diagnosis_set(out, "%s", host->library);
        diagnosis_remedy(out, "apt-get install rdma-core libibverbs1 ibverbs-providers librdmacm1");
    }
}

static void low_memlock(uint64_t bytes, struct br_verbs_diagnosis *out)
{
    diagnosis_set(out, "only %llu KiB of memory may be locked, which registered memory counts as",
                  (unsigned long long)(bytes >> 10));
    diagnosis_remedy(out, "ulimit -l unlimited; for good `* - memlock unlimited` in "
                          "/etc/security/limits.conf and a new login, "
                          "in a systemd unit LimitMEMLOCK=infinity");
}

bool br_verbs_memlock_is_low(const struct br_verbs_host *host)
{
    return host->inventory.memlock < MEMLOCK;
}

int br_verbs_host_diagnose(const struct br_verbs_host *host, struct br_verbs_diagnosis *out,
                           int max)
{
    struct br_verbs_diagnosis found[BR_VERBS_DIAGNOSES] = {0};
    int n = 0;

    if (!host->built || *host->library)
        build_or_library(host, &found[n++]);
    if (*host->cm) {
        diagnosis_set(&found[n], "no connections by rdma_cm: %.150s", host->cm);
        diagnosis_remedy(&found[n++], "apt-get install librdmacm1");
    }
    if (!host->inventory.n_devices)
        no_devices(&host->inventory, &found[n++]);
    if (host->inventory.n_devices && br_verbs_memlock_is_low(host))
        low_memlock(host->inventory.memlock, &found[n++]);
    n = n < max ? n : max;
    memcpy(out, found, (size_t)n * sizeof *out);
    return n;
}
