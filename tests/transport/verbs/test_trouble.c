/* SPDX-License-Identifier: BSD-3-Clause */
/* Why RDMA cannot be used, and what mends it: from facts as hosts show them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/verbs/trouble.h"

static struct br_verbs_host host;
static struct br_verbs_port port;
static struct br_gid gids[2];
static struct br_verbs_trouble trouble;

/* A healthy host with soft-RoCE on eth0. */
static int setup(void **state)
{
    (void)state;
    memset(gids, 0, sizeof gids);
    br_gid_parse("fe80::1", gids[0].raw);
    br_gid_parse("10.0.0.1", gids[1].raw);
    gids[0].type = gids[1].type = BR_GID_ROCE_V2;
    gids[1].index = 1;
    host = (struct br_verbs_host){
        .built = true,
        .around = {.kernel = "6.1.0-56-amd64",
                   .core = true,
                   .soft_roce = true,
                   .nodes = true,
                   .memlock = UINT64_MAX,
                   .n_devices = 1,
                   .devices = {"rxe0"},
                   .n_interfaces = 2,
                   .interfaces = {{.name = "lo", .up = true, .carrier = true, .loopback = true},
                                  {.name = "eth0", .up = true, .carrier = true}}}};
    port = (struct br_verbs_port){.name = "rxe0",
                                  .device = "rxe0",
                                  .netdev = "eth0",
                                  .port = 1,
                                  .reliable = true,
                                  .state = BR_VERBS_ACTIVE,
                                  .gids = gids,
                                  .n_gids = 2,
                                  .choice = {.entry = {1, -1, -1}}};
    return 0;
}

static void expect_port(const char *what, const char *mend)
{
    br_verbs_port_trouble(&host, &port, &trouble);
    assert_string_equal(trouble.what, what);
    assert_string_equal(trouble.mend, mend);
}

static void expect_host(const char *what, const char *mend)
{
    assert_int_equal(br_verbs_host_troubles(&host, &trouble, 1), 1);
    assert_string_equal(trouble.what, what);
    assert_string_equal(trouble.mend, mend);
}

static void port_trouble__none_of_a_healthy_one(void **state)
{
    (void)state;
    expect_port("", "");
    assert_int_equal(br_verbs_host_troubles(&host, &trouble, 1), 0);
}

static void port_trouble__not_opened(void **state)
{
    (void)state;
    port.port = 0;
    port.error = EACCES;
    br_verbs_port_trouble(&host, &port, &trouble);
    assert_string_equal(trouble.what, "no permission to open it");
    port.error = ENODEV;
    expect_port("libibverbs does not know it: the user-space part of its driver is missing",
                "apt-get install ibverbs-providers; `ibv_devices` then lists it");
    port.error = ENOENT; /* of this device; others may have one */
    br_verbs_port_trouble(&host, &port, &trouble);
    assert_non_null(strstr(trouble.mend, "modprobe ib_uverbs"));
    port.error = EBUSY;
    expect_port("it cannot be opened: Device or resource busy", "dmesg says why");
    host.around.nodes = false;
    expect_port("there is no /dev/infiniband/uverbs* to reach it by",
                "modprobe ib_uverbs; into a container: --device /dev/infiniband");
}

static void port_trouble__interface_down_or_without_cable(void **state)
{
    (void)state;
    port.state = BR_VERBS_DOWN;
    expect_port("its port is down: eth0 has no carrier", "plug in the cable, or enable the switch's port");
    host.around.interfaces[1].up = false;
    expect_port("its interface eth0 is down", "ip link set eth0 up");
    host.around.n_interfaces = 1;
    expect_port("its port is down, and its interface eth0 is in another network namespace",
                "where the interface is: ip link set eth0 up");
    port.netdev[0] = '\0';
    expect_port("its port is down: it has no carrier", "plug in the cable, or enable the switch's port");
}

static void port_trouble__infiniband_without_a_subnet_manager(void **state)
{
    (void)state;
    port.infiniband = true;
    port.state = BR_VERBS_INIT;
    expect_port("its port waits for a subnet manager (init)",
                "on one host or switch of the fabric: apt-get install opensm");
    port.state = BR_VERBS_DOWN;
    br_verbs_port_trouble(&host, &port, &trouble);
    assert_string_equal(trouble.what, "its port is down");
    port.state = BR_VERBS_ACTIVE;
    port.choice.entry[BR_GID_IPV4] = -1;
    port.n_gids = 0;
    expect_port("its port has no GID", "see what the subnet manager gave it: ibv_devinfo -v -d rxe0");
}

static void port_trouble__no_address(void **state)
{
    (void)state;
    port.choice.entry[BR_GID_IPV4] = -1;
    port.n_gids = 1;
    expect_port("it has no GID that a router takes: eth0 has neither an IPv4 nor a global IPv6 address",
                "ip addr add ADDRESS/24 dev eth0");
    port.n_gids = 2;
    br_gid_parse("169.254.3.4", gids[1].raw);
    br_verbs_port_trouble(&host, &port, &trouble);
    assert_string_equal(trouble.mend, "ip addr add ADDRESS/24 dev eth0");
    br_gid_parse("10.0.0.1", gids[1].raw);
    gids[1].type = BR_GID_ROCE_V1;
    expect_port("it has addresses, but RoCE v1 GIDs of them only",
                "cma_roce_mode -d rxe0 -p 1 -m 2; cards that know RoCE v1 only cannot be used");
    gids[1].type = BR_GID_ROCE_V2;
    gids[1].foreign = true;
    expect_port("its addresses are in another network namespace",
                "run there: ip netns exec NAME ...; or take a device whose interface is in this one");
}

static void port_trouble__no_reliable_connections(void **state)
{
    (void)state;
    port.reliable = false;
    br_verbs_port_trouble(&host, &port, &trouble);
    assert_non_null(strstr(trouble.what, "iWARP"));
    port.error = EIO;
    expect_port("its port cannot be asked: Input/output error", "dmesg says why");
}

static void host_troubles__build_and_libraries(void **state)
{
    struct br_verbs_trouble all[BR_VERBS_TROUBLES];

    (void)state;
    strcpy(host.cm, "librdmacm cannot be loaded");
    expect_host("no connections by rdma_cm: librdmacm cannot be loaded", "apt-get install librdmacm1");
    strcpy(host.library, "libibverbs cannot be loaded");
    assert_int_equal(br_verbs_host_troubles(&host, all, BR_VERBS_TROUBLES), 2);
    expect_host("libibverbs cannot be loaded",
                "apt-get install rdma-core libibverbs1 ibverbs-providers librdmacm1");
    host.built = false;
    expect_host("this build of braid has no verbs back end",
                "apt-get install libibverbs-dev librdmacm-dev, then configure and build braid again");
}

static void host_troubles__no_devices(void **state)
{
    (void)state;
    host.around.n_devices = 0;
    expect_host("no RDMA devices; soft-RoCE would make one of any interface",
                "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0");
    strcpy(host.around.interfaces[1].driver, "mlx5_core");
    expect_host("no RDMA devices, though eth0 (mlx5_core) may be one", "modprobe mlx5_ib");
    strcpy(host.around.interfaces[1].driver, "virtio_net");
    host.around.soft_roce = false;
    br_verbs_host_troubles(&host, &trouble, 1);
    assert_string_equal(trouble.what,
                        "no RDMA devices, and Linux 6.1.0-56-amd64 has no soft-RoCE (rdma_rxe)");
    host.around.core = false;
    br_verbs_host_troubles(&host, &trouble, 1);
    assert_string_equal(trouble.what,
                        "Linux 6.1.0-56-amd64 has no RDMA: neither devices nor the module rdma_rxe");
    assert_non_null(strstr(trouble.mend, "apt-get install linux-image-amd64"));
}

static void host_troubles__locked_memory(void **state)
{
    (void)state;
    host.around.memlock = 8 << 20;
    br_verbs_host_troubles(&host, &trouble, 1);
    assert_string_equal(trouble.what,
                        "only 8192 KiB of memory may be locked, which registered memory counts as");
    assert_non_null(strstr(trouble.mend, "ulimit -l unlimited"));
    assert_non_null(strstr(trouble.mend, "LimitMEMLOCK=infinity"));
    host.around.n_devices = 0; /* no devices: the limit is nobody's trouble */
    assert_int_equal(br_verbs_host_troubles(&host, &trouble, 1), 1);
    assert_null(strstr(trouble.what, "locked"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(port_trouble__none_of_a_healthy_one, setup),
        cmocka_unit_test_setup(port_trouble__not_opened, setup),
        cmocka_unit_test_setup(port_trouble__interface_down_or_without_cable, setup),
        cmocka_unit_test_setup(port_trouble__infiniband_without_a_subnet_manager, setup),
        cmocka_unit_test_setup(port_trouble__no_address, setup),
        cmocka_unit_test_setup(port_trouble__no_reliable_connections, setup),
        cmocka_unit_test_setup(host_troubles__build_and_libraries, setup),
        cmocka_unit_test_setup(host_troubles__no_devices, setup),
        cmocka_unit_test_setup(host_troubles__locked_memory, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
