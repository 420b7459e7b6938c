/* SPDX-License-Identifier: BSD-3-Clause */
/* What a host offers to a job whose back end braid chooses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/says.h"
#include "transport/verbs/capabilities.h"

/* mlx5_0 with an address of each family, mlx5_1 with IPv4 only, rxe0, which is soft-RoCE; all of
 * them can be used. */
static struct br_gid gids[3][2];
static struct br_verbs_port ports[3];
static struct br_verbs_host host;

static void set_gid(struct br_gid *gid, int index, const char *address, const char *netdev)
{
    *gid = (struct br_gid){.index = index, .type = BR_GID_ROCE_V2};
    br_gid_parse(address, gid->raw);
    strcpy(gid->netdev, netdev);
}

static void set_port(int i, const char *name, const char *netdev, int n_gids)
{
    struct br_verbs_port *port = &ports[i];

    *port = (struct br_verbs_port){
        .port = 1, .reliable = true, .state = BR_VERBS_ACTIVE, .gids = gids[i], .n_gids = n_gids};
    strcpy(port->name, name);
    strcpy(port->device, name);
    strcpy(port->netdev, netdev);
    port->wish.index = -1;
    assert_int_equal(br_gid_choose(port->gids, n_gids, &port->wish, &port->choice), 0);
}

static int setup(void **state)
{
    (void)state;
    unsetenv("BRAID_GID_INDEX");
    set_gid(&gids[0][0], 1, "10.0.0.1", "eth0");
    set_gid(&gids[0][1], 2, "fd00::1", "eth0");
    set_gid(&gids[1][0], 1, "10.1.0.1", "eth1");
    set_gid(&gids[2][0], 1, "10.2.0.1", "eth2");
    set_port(0, "mlx5_0", "eth0", 2);
    set_port(1, "mlx5_1", "eth1", 1);
    set_port(2, "rxe0", "eth2", 1);
    ports[2].software = true;
    host = (struct br_verbs_host){
        .built = true, .ports = ports, .n_ports = 3, .inventory = {.memlock = UINT64_MAX}};
    return 0;
}

static struct br_verbs_capabilities capabilities(int n, const char *first, const char *second)
{
    char names[2][BR_DEVICE_NAME] = {"", ""};
    uint32_t none[2] = {0};
    struct br_verbs_capabilities out;

    strcpy(names[0], first);
    strcpy(names[1], second);
    br_verbs_capabilities_of(&host, (const char(*)[BR_DEVICE_NAME])names, none, n, &out);
    assert_int_equal(!out.usable, !!*out.why_not);
    return out;
}

static void assert_refused(int n, const char *first, const char *second, const char *nouns)
{
    struct br_verbs_capabilities out = capabilities(n, first, second);

    assert_false(out.usable);
    assert_says(out.why_not, nouns);
}

static void capabilities__hardware_without_a_name(void **state)
{
    struct br_verbs_capabilities out = capabilities(0, "", "");

    (void)state;
    assert_true(out.usable);
    assert_int_equal(out.families, 1 << BR_GID_IPV4); /* what both ports have */
    ports[1].infiniband = true;
    assert_refused(0, "", "", "Ethernet|InfiniBand");
    strcpy(ports[1].diagnosis.what, "its port is down");
    out = capabilities(0, "", "");
    assert_true(out.usable);
    assert_int_equal(out.families, 1 << BR_GID_IPV4 | 1 << BR_GID_IPV6);
}

static void capabilities__soft_roce_by_its_own_name_only(void **state)
{
    (void)state;
    assert_true(capabilities(1, "rxe0", "").usable);
    assert_true(capabilities(2, "rxe0", "mlx5_0").usable);
    assert_refused(1, "eth2", "", "soft-RoCE|rxe0");
    assert_refused(1, "10.2.0.1", "", "soft-RoCE");
    host.ports = &ports[2];
    host.n_ports = 1;
    assert_refused(0, "", "", "soft-RoCE only");
}

/* Hardware by any of its names; a level of a BCube may have no device. */
static void capabilities__names(void **state)
{
    (void)state;
    assert_true(capabilities(1, "eth0", "").usable);
    assert_true(capabilities(1, "10.1.0.1", "").usable);
    assert_true(capabilities(2, "", "mlx5_1").usable);
    assert_refused(2, "mlx5_0", "eth7", "eth7");
    assert_refused(1, "127.0.0.1", "", "127.0.0.1");
    strcpy(ports[0].diagnosis.what, "its interface eth0 is down");
    strcpy(ports[0].diagnosis.remedy, "ip link set eth0 up");
    assert_refused(2, "mlx5_1", "mlx5_0", "interface eth0|down");
}

static void capabilities__nothing_that_would_fail_to_open(void **state)
{
    (void)state;
    host.inventory.memlock = 64 << 10;
    assert_refused(0, "", "", "64 KiB");
    host.inventory.memlock = UINT64_MAX;
    strcpy(host.library, "libibverbs.so.1 is not there");
    assert_refused(0, "", "", "libibverbs.so.1");
    host.built = false;
    assert_refused(0, "", "", "no verbs");
    *host.library = '\0';
    host.built = true;
    for (int i = 0; i < 3; i++)
        strcpy(ports[i].diagnosis.what, "its port is down");
    assert_refused(0, "", "", "port|down");
    host.n_ports = 0;
    assert_refused(0, "", "", "RDMA devices");
}

static void capabilities__kinds_of_address(void **state)
{
    (void)state;
    set_gid(&gids[1][0], 1, "fd01::1", "eth1");
    set_port(1, "mlx5_1", "eth1", 1);
    assert_int_equal(capabilities(0, "", "").families, 1 << BR_GID_IPV6);
    set_port(0, "mlx5_0", "eth0", 1);
    assert_refused(0, "", "", "address");
}

/* Whatever this machine has. */
static void capabilities__this_machine(void **state)
{
    const char nothing[1][BR_DEVICE_NAME] = {"no-such-nic"};
    const uint32_t none[1] = {0};
    struct br_verbs_capabilities out;

    (void)state;
    br_verbs_capabilities(nothing, none, 1, &out);
    assert_false(out.usable);
    assert_true(*out.why_not);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(capabilities__hardware_without_a_name, setup),
        cmocka_unit_test_setup(capabilities__soft_roce_by_its_own_name_only, setup),
        cmocka_unit_test_setup(capabilities__names, setup),
        cmocka_unit_test_setup(capabilities__nothing_that_would_fail_to_open, setup),
        cmocka_unit_test_setup(capabilities__kinds_of_address, setup),
        cmocka_unit_test(capabilities__this_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
