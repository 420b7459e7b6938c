/* SPDX-License-Identifier: BSD-3-Clause */
/* Why RDMA cannot be used, and what mends it: from facts as hosts show them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/says.h"
#include "transport/verbs/diagnosis.h"

static struct br_verbs_host host;
static struct br_verbs_port port;
static struct br_gid gids[2];
static struct br_verbs_diagnosis diagnosis;

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
        .inventory = {.kernel = "6.1.0-56-amd64",
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

/* What the trouble and its remedy name. */
static void expect_port(const char *what, const char *mend)
{
    br_verbs_port_diagnosis(&host, &port, &diagnosis);
    assert_says(diagnosis.what, what);
    assert_says(diagnosis.remedy, mend);
}

static void expect_host(const char *what, const char *mend)
{
    assert_int_equal(br_verbs_host_diagnose(&host, &diagnosis, 1), 1);
    assert_says(diagnosis.what, what);
    assert_says(diagnosis.remedy, mend);
}

static void port_diagnosis__none_of_a_healthy_one(void **state)
{
    (void)state;
    br_verbs_port_diagnosis(&host, &port, &diagnosis);
    assert_string_equal(diagnosis.what, "");
    assert_string_equal(diagnosis.remedy, "");
    assert_int_equal(br_verbs_host_diagnose(&host, &diagnosis, 1), 0);
}

static void port_diagnosis__not_opened(void **state)
{
    (void)state;
    port.port = 0;
    port.error = EACCES;
    br_verbs_port_diagnosis(&host, &port, &diagnosis);
    assert_says(diagnosis.what, "permission");
    port.error = ENODEV;
    expect_port("libibverbs|driver", "ibverbs-providers|ibv_devices");
    port.error = ENOENT; /* of this device; others may have one */
    br_verbs_port_diagnosis(&host, &port, &diagnosis);
    assert_non_null(strstr(diagnosis.remedy, "modprobe ib_uverbs"));
    port.error = EBUSY;
    expect_port(strerror(EBUSY), "dmesg");
    host.inventory.nodes = false;
    expect_port("/dev/infiniband/uverbs*", "modprobe ib_uverbs|--device /dev/infiniband");
}

static void port_diagnosis__interface_down_or_without_cable(void **state)
{
    (void)state;
    port.state = BR_VERBS_DOWN;
    expect_port("port|eth0|carrier", "cable|switch's");
    host.inventory.interfaces[1].up = false;
    expect_port("interface eth0|down", "ip link set eth0 up");
    host.inventory.n_interfaces = 1;
    expect_port("interface eth0|namespace", "ip link set eth0 up");
    port.netdev[0] = '\0';
    expect_port("port|carrier", "cable|switch's");
}

static void port_diagnosis__infiniband_without_a_subnet_manager(void **state)
{
    (void)state;
    port.infiniband = true;
    port.state = BR_VERBS_INIT;
    expect_port("subnet manager|init", "opensm");
    port.state = BR_VERBS_DOWN;
    br_verbs_port_diagnosis(&host, &port, &diagnosis);
    assert_says(diagnosis.what, "port|down");
    assert_null(strstr(diagnosis.what, "carrier")); /* which a port of InfiniBand does not have */
    port.state = BR_VERBS_ACTIVE;
    port.choice.entry[BR_GID_IPV4] = -1;
    port.n_gids = 0;
    expect_port("port|GID", "ibv_devinfo -v -d rxe0");
}

static void port_diagnosis__no_address(void **state)
{
    (void)state;
    port.choice.entry[BR_GID_IPV4] = -1;
    port.n_gids = 1;
    expect_port("GID|eth0|IPv4|IPv6", "ip addr add ADDRESS/24 dev eth0");
    port.n_gids = 2;
    br_gid_parse("169.254.3.4", gids[1].raw);
    br_verbs_port_diagnosis(&host, &port, &diagnosis);
    assert_string_equal(diagnosis.remedy, "ip addr add ADDRESS/24 dev eth0");
    br_gid_parse("10.0.0.1", gids[1].raw);
    gids[1].type = BR_GID_ROCE_V1;
    expect_port("addresses|RoCE v1", "cma_roce_mode -d rxe0 -p 1 -m 2|RoCE v1");
    gids[1].type = BR_GID_ROCE_V2;
    gids[1].foreign = true;
    expect_port("addresses|namespace", "ip netns exec");
}

static void port_diagnosis__no_reliable_connections(void **state)
{
    (void)state;
    port.reliable = false;
    br_verbs_port_diagnosis(&host, &port, &diagnosis);
    assert_non_null(strstr(diagnosis.what, "iWARP"));
    port.error = EIO;
    expect_port(strerror(EIO), "dmesg");
}

static void host_diagnose__build_and_libraries(void **state)
{
    struct br_verbs_diagnosis all[BR_VERBS_DIAGNOSES];

    (void)state;
    strcpy(host.cm, "librdmacm.so.1");
    expect_host("rdma_cm|librdmacm", "apt-get install librdmacm1");
    strcpy(host.library, "libibverbs.so.1");
    assert_int_equal(br_verbs_host_diagnose(&host, all, BR_VERBS_DIAGNOSES), 2);
    expect_host("libibverbs", "rdma-core|libibverbs1|ibverbs-providers|librdmacm1");
    host.built = false;
    expect_host("build|verbs", "libibverbs-dev|librdmacm-dev|build");
}

static void host_diagnose__no_devices(void **state)
{
    (void)state;
    host.inventory.n_devices = 0;
    expect_host("RDMA|soft-RoCE", "modprobe rdma_rxe|rxe0|netdev eth0");
    strcpy(host.inventory.interfaces[1].driver, "mlx5_core");
    expect_host("RDMA|eth0 (mlx5_core)", "modprobe mlx5_ib");
    strcpy(host.inventory.interfaces[1].driver, "virtio_net");
    host.inventory.soft_roce = false;
    br_verbs_host_diagnose(&host, &diagnosis, 1);
    assert_says(diagnosis.what, "Linux 6.1.0-56-amd64|soft-RoCE|devices");
    host.inventory.core = false;
    br_verbs_host_diagnose(&host, &diagnosis, 1);
    assert_says(diagnosis.what, "Linux 6.1.0-56-amd64|RDMA:|rdma_rxe");
    assert_non_null(strstr(diagnosis.remedy, "apt-get install linux-image-amd64"));
}

static void host_diagnose__locked_memory(void **state)
{
    (void)state;
    host.inventory.memlock = 8 << 20;
    br_verbs_host_diagnose(&host, &diagnosis, 1);
    assert_says(diagnosis.what, "8192 KiB|locked");
    assert_non_null(strstr(diagnosis.remedy, "ulimit -l unlimited"));
    assert_non_null(strstr(diagnosis.remedy, "LimitMEMLOCK=infinity"));
    host.inventory.n_devices = 0; /* no devices: the limit is nobody's trouble */
    assert_int_equal(br_verbs_host_diagnose(&host, &diagnosis, 1), 1);
    assert_null(strstr(diagnosis.what, "locked"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(port_diagnosis__none_of_a_healthy_one, setup),
        cmocka_unit_test_setup(port_diagnosis__not_opened, setup),
        cmocka_unit_test_setup(port_diagnosis__interface_down_or_without_cable, setup),
        cmocka_unit_test_setup(port_diagnosis__infiniband_without_a_subnet_manager, setup),
        cmocka_unit_test_setup(port_diagnosis__no_address, setup),
        cmocka_unit_test_setup(port_diagnosis__no_reliable_connections, setup),
        cmocka_unit_test_setup(host_diagnose__build_and_libraries, setup),
        cmocka_unit_test_setup(host_diagnose__no_devices, setup),
        cmocka_unit_test_setup(host_diagnose__locked_memory, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
