/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of ports, and what this machine has, whatever that is. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/says.h"
#include "transport/verbs/probe.h"

/* mlx5_0 with two ports, the second one with a VLAN; rxe0, which is down; both ports of one
 * subnet. */
static struct br_gid first[2], second[3];
static struct br_verbs_port ports[3];
static struct br_verbs_host host;

static void set_gid(struct br_gid *gid, int index, const char *address, const char *netdev)
{
    gid->index = index;
    gid->type = BR_GID_ROCE_V2;
    br_gid_parse(address, gid->raw);
    strcpy(gid->netdev, netdev);
}

static void set_port(struct br_verbs_port *port, const char *name, int number, const char *netdev)
{
    *port = (struct br_verbs_port){.port = number, .reliable = true, .state = BR_VERBS_ACTIVE};
    strcpy(port->name, name);
    strcpy(port->device, name);
    port->device[strcspn(name, ":")] = '\0';
    strcpy(port->netdev, netdev);
}

static int setup(void **state)
{
    (void)state;
    unsetenv("BRAID_GID_INDEX");
    set_port(&ports[0], "mlx5_0:1", 1, "ens1f0");
    set_port(&ports[1], "mlx5_0:2", 2, "ens1f1");
    set_port(&ports[2], "rxe0", 1, "eth0");
    set_gid(&first[0], 0, "fe80::1", "ens1f0");
    set_gid(&first[1], 3, "10.0.0.1", "ens1f0");
    set_gid(&second[0], 0, "fe80::2", "ens1f1");
    set_gid(&second[1], 3, "10.1.0.1", "ens1f1");
    set_gid(&second[2], 5, "10.7.0.1", "ens1f1.7");
    ports[0].gids = first;
    ports[0].n_gids = 2;
    ports[1].gids = second;
    ports[1].n_gids = 3;
    strcpy(ports[2].diagnosis.what, "its interface eth0 is down");
    strcpy(ports[2].diagnosis.remedy, "ip link set eth0 up");
    host = (struct br_verbs_host){.built = true, .ports = ports, .n_ports = 3};
    return 0;
}

/* The GID index that a name leads to; negative: the error. */
static int find(const char *name, uint32_t gid, const struct br_verbs_port **port)
{
    struct br_gid_choice choice;
    int rc = br_verbs_port_find(&host, name, gid, port, &choice);

    return rc ? rc : (*port)->gids[choice.entry[BR_GID_IPV4]].index;
}

static void find__every_kind_of_name(void **state)
{
    static const struct {
        const char *name;
        int port, index;
    } cases[] = {
        {"mlx5_0", 0, 3},   {"mlx5_0:1", 0, 3}, {"mlx5_0:2", 1, 3}, {"ens1f0", 0, 3},
        {"ens1f1", 1, 3},   {"ens1f1.7", 1, 5}, {"10.0.0.1", 0, 3}, {"10.1.0.1", 1, 3},
        {"10.7.0.1", 1, 5}, {NULL, 0, 3},
    };
    const struct br_verbs_port *port;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(find(cases[i].name, 0, &port), cases[i].index);
        assert_ptr_equal(port, &ports[cases[i].port]);
    }
}

static void find__unknown_names_list_what_there_is(void **state)
{
    static const char *const names[] = {"mlx5_1", "mlx5_0:3", "ens", "10.9.9.9", "fd00::1", ""};
    const struct br_verbs_port *port;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(find(names[i], 0, &port), -ENODEV);
        assert_non_null(strstr(br_error_message(), "there are: mlx5_0:1 mlx5_0:2 rxe0"));
    }
}

static void find__unusable_says_why_and_the_remedy(void **state)
{
    const struct br_verbs_port *port;

    (void)state;
    assert_int_equal(find("rxe0", 0, &port), -ENETDOWN);
    assert_says(br_error_message(), "rxe0|interface eth0|ip link set eth0 up");
    assert_int_equal(find("eth0", 0, &port), -ENETDOWN);
}

static void find__a_broken_port_gives_way_to_the_other(void **state)
{
    const struct br_verbs_port *port;

    (void)state;
    strcpy(ports[0].diagnosis.what, "its port is down");
    assert_int_equal(find("mlx5_0", 0, &port), 3);
    assert_ptr_equal(port, &ports[1]);
    assert_int_equal(find("mlx5_0:1", 0, &port), -ENETDOWN);
    assert_int_equal(find(NULL, 0, &port), 3);
    assert_ptr_equal(port, &ports[1]);
}

static void find__the_link_local_address_of_an_interface_is_no_accident(void **state)
{
    const struct br_verbs_port *port;

    (void)state;
    assert_int_equal(find("fe80::1", 0, &port), -EADDRNOTAVAIL);
    assert_non_null(strstr(br_error_message(), "link-local"));
}

static void find__index_of_the_inventory_and_of_the_environment(void **state)
{
    const struct br_verbs_port *port;

    (void)state;
    assert_int_equal(find("mlx5_0:2", 1 + 5, &port), 5);
    assert_int_equal(find("mlx5_0:2", 1 + 4, &port), -EINVAL);
    assert_says(br_error_message(), "gid_index|inventory|GID 4");
    setenv("BRAID_GID_INDEX", "3", 1);
    assert_int_equal(find("mlx5_0:2", 1 + 5, &port), 3);
    setenv("BRAID_GID_INDEX", "x", 1);
    assert_int_equal(find("mlx5_0:2", 0, &port), -EINVAL);
    assert_non_null(strstr(br_error_message(), "BRAID_GID_INDEX"));
}

static void find__no_device_says_what_the_host_lacks(void **state)
{
    const struct br_verbs_port *port;

    (void)state;
    host.n_ports = 0;
    assert_int_equal(find("rxe0", 0, &port), -ENODEV);
    host.n_diagnoses = 1;
    host.diagnoses[0] = (struct br_verbs_diagnosis){"no RDMA devices", "modprobe rdma_rxe"};
    assert_int_equal(find(NULL, 0, &port), -ENODEV);
    assert_says(br_error_message(), "RDMA|modprobe rdma_rxe");
}

/* Whatever this machine is: what is not usable says why, and what is has a GID. */
static void host_read__this_machine(void **state)
{
    struct br_verbs_host here;
    struct br_device_info infos[8];

    (void)state;
    assert_int_equal(br_verbs_host_read(&here), 0);
    for (int i = 0; i < here.n_ports; i++)
        if (!*here.ports[i].diagnosis.what)
            assert_true(here.ports[i].n_gids > 0 && here.ports[i].state == BR_VERBS_ACTIVE);
    if (!here.n_ports)
        assert_true(here.n_diagnoses > 0);
    assert_int_equal(br_verbs_probe(infos, 8), here.n_ports < 8 ? here.n_ports : 8);
    for (int i = 0; i < here.n_ports && i < 8; i++)
        assert_string_equal(infos[i].name, here.ports[i].name);
    br_verbs_host_destroy(&here);
}

static void host_read__a_bad_variable_is_an_error(void **state)
{
    struct br_verbs_host here;

    (void)state;
    setenv("BRAID_GID_INDEX", "-3", 1);
    assert_int_equal(br_verbs_host_read(&here), -EINVAL);
    assert_non_null(strstr(br_error_message(), "BRAID_GID_INDEX"));
    br_verbs_host_destroy(&here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(find__every_kind_of_name, setup),
        cmocka_unit_test_setup(find__unknown_names_list_what_there_is, setup),
        cmocka_unit_test_setup(find__unusable_says_why_and_the_remedy, setup),
        cmocka_unit_test_setup(find__a_broken_port_gives_way_to_the_other, setup),
        cmocka_unit_test_setup(find__the_link_local_address_of_an_interface_is_no_accident, setup),
        cmocka_unit_test_setup(find__index_of_the_inventory_and_of_the_environment, setup),
        cmocka_unit_test_setup(find__no_device_says_what_the_host_lacks, setup),
        cmocka_unit_test_setup(host_read__this_machine, setup),
        cmocka_unit_test_setup(host_read__a_bad_variable_is_an_error, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
