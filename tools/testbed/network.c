/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/network.h"

#include "base/error.h"
#include "tools/testbed/netlink.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANAGEMENT       "mgmt" /* the bridge */
#define MANAGEMENT_MTU   1500
#define MANAGEMENT_LEVEL 0xff /* in MACs */
#define LOOKS            100  /* for the end of processes before SIGKILL, and after */
#define LOOK_US          10000

/* ---- sysctls --------------------------------------------------------------------------------- */

/* Of the namespace that we are in. What this kernel does not have is not needed. */
static int write_sysctl(const char *path, const char *value)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC), rc = 0;

    if (fd < 0)
        return errno == ENOENT ? 0 : br_error(errno, "cannot write %s: %s", path, strerror(errno));
    if (write(fd, value, strlen(value)) < 0)
        rc = br_error(errno, "cannot write '%s' to %s: %s", value, path, strerror(errno));
    close(fd);
    return rc;
}

static int write_link_sysctl(int version, const char *link, const char *name, const char *value)
{
    char path[128];

    snprintf(path, sizeof path, "/proc/sys/net/ipv%d/conf/%s/%s", version, link, name);
    return write_sysctl(path, value);
}

/* Links that are made later begin with what `default` says. */
static int silence_ipv6(void *with)
{
    int rc = write_link_sysctl(6, "all", "disable_ipv6", "1");

    (void)with;
    return rc < 0 ? rc : write_link_sysctl(6, "default", "disable_ipv6", "1");
}

static int prepare_switches(void *with)
{
    static const char *const filters[] = {"arptables", "iptables", "ip6tables"};
    int rc = silence_ipv6(with);

    for (size_t i = 0; i < sizeof filters / sizeof *filters && rc == 0; i++) {
        char path[128];

        /* Frames on a switch are no affair of the machine's packet filter. */
        snprintf(path, sizeof path, "/proc/sys/net/bridge/bridge-nf-call-%s", filters[i]);
        rc = write_sysctl(path, "0");
    }
    return rc;
}

struct host_sysctls {
    const struct br_testbed *testbed;
    const struct br_faults *faults;
    uint32_t host;
};

static int write_of_link(const struct br_host_state *state, const char *link)
{
    int rc = write_link_sysctl(4, link, "arp_ignore", state->arp ? "1" : "0");

    if (rc == 0)
        rc = write_link_sysctl(4, link, "arp_announce", state->arp ? "2" : "0");
    return rc < 0 ? rc : write_link_sysctl(4, link, "rp_filter", state->rp_filter ? "2" : "1");
}

/* The kernel takes the larger of `all` and the link's, so both are set. */
static int write_host_sysctls(void *with)
{
    const struct host_sysctls *sysctls = with;
    struct br_host_state state;
    int rc;

    br_faults_host(sysctls->faults, sysctls->host, &state);
    rc = write_of_link(&state, "all");
    if (rc == 0)
        rc = write_of_link(&state, "default");
    if (rc == 0)
        rc = write_of_link(&state, BR_TESTBED_MANAGEMENT_NIC);
    for (uint32_t level = 0; level < sysctls->testbed->cube.k && rc == 0; level++) {
        struct br_nic_state nic;

        br_faults_nic(sysctls->faults, sysctls->testbed, sysctls->host, level, &nic);
        rc = write_of_link(&state, nic.name);
    }
    return rc;
}

/* ---- setting to a state ---------------------------------------------------------------------- */

static char *management_port(uint32_t host, char out[BR_TESTBED_LINK])
{
    snprintf(out, BR_TESTBED_LINK, MANAGEMENT "-%u", host & 0xffff);
    return out;
}

static int add_cable(const struct br_testbed *testbed, struct br_net *switches, struct br_net *net,
                     uint32_t host, uint32_t level)
{
    char port[BR_TESTBED_LINK], bridge[BR_TESTBED_LINK], nic[BR_TESTBED_ADDRESS],
        mac[BR_TESTBED_MAC];

    br_testbed_port(testbed, host, level, port);
    br_testbed_bridge(level, br_bcube_switch(&testbed->cube, host, level), bridge);
    br_testbed_nic(testbed, host, level, nic);
    return br_net_add_cable(switches, port, bridge, net, nic, br_testbed_mac(host, level, mac),
                            testbed->mtu);
}

/* The end of the cable that is in the switch. */
static int testbed_network_set_port(struct br_net *switches, const char *port,
                                    const struct br_nic_state *state)
{
    char bridge[BR_TESTBED_LINK];
    int rc =
        br_net_set_bridge(switches, port, br_testbed_bridge(state->level, state->index, bridge));

    if (rc == 0)
        rc = br_net_set_mtu(switches, port, state->port_mtu);
    if (rc == 0)
        rc = br_net_set_rate(switches, port, state->rate);
    if (rc == 0)
        rc = br_net_set_loss(switches, port, state->loss_in, state->loss_out);
    return rc < 0 ? rc : br_net_set_up(switches, port, state->up);
}

static int testbed_network_set_nic(struct br_net *switches, struct br_net *net,
                                   const struct br_testbed *testbed, uint32_t host, uint32_t level,
                                   const struct br_nic_state *state)
{
    char port[BR_TESTBED_LINK];
    int rc = br_net_has(switches, br_testbed_port(testbed, host, level, port));

    if (rc < 0)
        return rc;
    if (state->missing)
        return rc ? br_net_remove(switches, port) : 0;
    rc = rc ? 0 : add_cable(testbed, switches, net, host, level);
    if (rc == 0)
        rc = br_net_set_nic_name(switches, port, net, state->name);
    if (rc == 0)
        rc = testbed_network_set_port(switches, port, state);
    if (rc == 0)
        rc = br_net_set_mac(net, state->name, state->mac);
    if (rc == 0)
        rc = br_net_set_mtu(net, state->name, state->mtu);
    if (rc == 0)
        rc = br_net_set_rate(net, state->name, state->rate);
    if (rc == 0)
        rc = br_net_set_up(net, state->name, !state->off);
    return rc < 0 ? rc : br_net_set_address(net, state->name, state->address);
}

static int set_host(struct br_net *switches, struct br_net *net, const struct br_testbed *testbed,
                    const struct br_faults *faults, uint32_t host)
{
    struct host_sysctls sysctls = {testbed, faults, host};
    struct br_host_state state;
    char port[BR_TESTBED_LINK];
    int rc;

    br_faults_host(faults, host, &state);
    rc = br_net_set_up(switches, management_port(host, port), state.management);
    for (uint32_t level = 0; level < testbed->cube.k && rc == 0; level++) {
        struct br_nic_state nic;

        br_faults_nic(faults, testbed, host, level, &nic);
        rc = testbed_network_set_nic(switches, net, testbed, host, level, &nic);
    }
    return rc < 0 ? rc : br_namespace_visit(net->name, write_host_sysctls, &sysctls);
}

int br_network_apply(const struct br_testbed *testbed, const struct br_faults *faults)
{
    char name[BR_NAMESPACE_NAME];
    struct br_net switches, net;
    int rc;

    if (testbed->loopback)
        return 0;
    rc = br_net_open(&switches, br_testbed_switch_space(testbed, name));
    for (uint32_t host = 0; host < testbed->hosts && rc == 0; host++) {
        rc = br_net_open(&net, br_testbed_host_space(testbed, host, name));
        if (rc == 0) {
            rc = set_host(&switches, &net, testbed, faults, host);
            br_net_close(&net);
        }
    }
    br_net_close(&switches);
    return rc;
}

/* ---- making ---------------------------------------------------------------------------------- */

static int check_free(const char *name)
{
    char path[BR_NAMESPACE_NAME + 16];

    snprintf(path, sizeof path, "/run/netns/%s", name);
    if (access(path, F_OK) < 0)
        return 0;
    return br_error(
        EEXIST,
        "there is a network namespace %s already, which belongs to no testbed; remove it (ip "
        "netns del %s) or give "
        "another --name",
        name, name);
}

int br_network_check(const struct br_testbed *testbed)
{
    char name[BR_NAMESPACE_NAME];
    int rc = testbed->loopback ? 0 : check_free(br_testbed_switch_space(testbed, name));

    for (uint32_t host = 0; host < testbed->hosts && rc == 0 && !testbed->loopback; host++)
        rc = check_free(br_testbed_host_space(testbed, host, name));
    return rc;
}

static int make_switches(const struct br_testbed *testbed, struct br_net *switches)
{
    char name[BR_NAMESPACE_NAME], bridge[BR_TESTBED_LINK];
    uint32_t per_level = br_bcube_power(&testbed->cube, testbed->cube.k - 1);
    int rc = br_namespace_add(br_testbed_switch_space(testbed, name));

    if (rc == 0)
        rc = br_namespace_visit(name, prepare_switches, NULL);
    if (rc == 0)
        rc = br_net_open(switches, name);
    if (rc == 0)
        rc = br_net_add_bridge(switches, MANAGEMENT);
    for (uint32_t level = 0; level < testbed->cube.k; level++)
        for (uint32_t index = 0; index < per_level && rc == 0; index++)
            if (br_cabling_switch_used(&testbed->cabling, level, index))
                rc = br_net_add_bridge(switches, br_testbed_bridge(level, index, bridge));
    return rc;
}

/* lo and the management network; the rest comes from set_host(). */
static int make_management(const struct br_testbed *testbed, struct br_net *switches,
                           struct br_net *net, uint32_t host)
{
    char port[BR_TESTBED_LINK], mac[BR_TESTBED_MAC], address[BR_TESTBED_ADDRESS];
    int rc = br_net_set_up(net, "lo", true);

    if (rc == 0)
        rc = br_net_add_cable(switches, management_port(host, port), MANAGEMENT, net,
                              BR_TESTBED_MANAGEMENT_NIC,
                              br_testbed_mac(host, MANAGEMENT_LEVEL, mac), MANAGEMENT_MTU);
    if (rc == 0)
        rc = br_net_set_up(net, BR_TESTBED_MANAGEMENT_NIC, true);
    br_testbed_management(testbed, host, address);
    return rc < 0 ? rc : br_net_set_address(net, BR_TESTBED_MANAGEMENT_NIC, address);
}

static int make_host(const struct br_testbed *testbed, struct br_net *switches,
                     const struct br_faults *healthy, uint32_t host)
{
    char name[BR_NAMESPACE_NAME];
    struct br_net net = {0};
    int rc = br_namespace_add(br_testbed_host_space(testbed, host, name));

    if (rc == 0)
        rc = br_namespace_visit(name, silence_ipv6, NULL);
    if (rc == 0)
        rc = br_net_open(&net, name);
    if (rc == 0)
        rc = make_management(testbed, switches, &net, host);
    if (rc == 0)
        rc = set_host(switches, &net, testbed, healthy, host);
    br_net_close(&net);
    return rc;
}

int br_network_make(const struct br_testbed *testbed, const volatile sig_atomic_t *stop)
{
    static const struct br_faults healthy;
    struct br_net switches = {0};
    int rc = testbed->loopback ? 0 : make_switches(testbed, &switches);

    for (uint32_t host = 0; host < testbed->hosts && rc == 0 && !testbed->loopback; host++) {
        rc = make_host(testbed, &switches, &healthy, host);
        if (rc == 0 && *stop)
            rc = br_error(EINTR, "interrupted");
    }
    br_net_close(&switches);
    return rc;
}

/* ---- removing -------------------------------------------------------------------------------- */

static int testbed_network_signal_all(const struct br_testbed *testbed, int number)
{
    char name[BR_NAMESPACE_NAME];
    int n = 0;

    for (uint32_t host = 0; host < testbed->hosts; host++)
        n += br_namespace_signal(br_testbed_host_space(testbed, host, name), number);
    return n + br_namespace_signal(br_testbed_switch_space(testbed, name), number);
}

static int end_processes(const struct br_testbed *testbed)
{
    int n = testbed_network_signal_all(testbed, SIGTERM), left = n;

    for (int i = 0; i < LOOKS && left; i++) {
        usleep(LOOK_US);
        left = testbed_network_signal_all(testbed, 0);
    }
    for (int i = 0; i < LOOKS && left; i++) {
        left = testbed_network_signal_all(testbed, SIGKILL);
        usleep(LOOK_US);
    }
    return n;
}

int br_network_remove(const struct br_testbed *testbed, int *ended)
{
    char name[BR_NAMESPACE_NAME];
    int rc = 0, one;

    *ended = 0;
    if (testbed->loopback)
        return 0;
    *ended = end_processes(testbed);
    for (uint32_t host = testbed->hosts; host-- > 0;) {
        one = br_namespace_remove(br_testbed_host_space(testbed, host, name));
        rc = rc < 0 ? rc : one;
    }
    one = br_namespace_remove(br_testbed_switch_space(testbed, name));
    return rc < 0 ? rc : one;
}
