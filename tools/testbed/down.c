/* SPDX-License-Identifier: BSD-3-Clause */
/* braid bcube down and list: the end of emulated testbeds, and which there are. */
#include "base/error.h"
#include "tools/common/options.h"
#include "tools/testbed/bcube.h"
#include "tools/testbed/network.h"
#include "base/text.h"
#include "tools/testbed/testbed.h"

#include <stdio.h>
#include <stdlib.h>

#define LIST_MAX 256

static int down_complain(const char *who, int code)
{
    fprintf(stderr, "braid bcube %s: %s\n", who, br_error_message());
    return code;
}

/* A testbed without settings has nothing but its folder. */
static int remove_testbed(struct br_testbed *testbed)
{
    int ended = 0, rc = 0;

    if (testbed->cube.n) {
        testbed->ready = false;
        rc = br_testbed_save(testbed);
        if (rc == 0)
            rc = br_network_remove(testbed, &ended);
    }
    if (rc == 0)
        rc = br_testbed_forget(testbed);
    if (rc == 0 && ended)
        printf("testbed %s is removed, %d process%s in it ended\n", testbed->name, ended,
               ended > 1 ? "es" : "");
    else if (rc == 0)
        printf("testbed %s is removed\n", testbed->name);
    return rc;
}

static int take_down(const char *name)
{
    struct br_testbed testbed;
    int rc = br_testbed_open(&testbed, name, true);

    if (rc == 0)
        rc = remove_testbed(&testbed);
    br_testbed_close(&testbed);
    return rc < 0 ? down_complain("down", 1) : 0;
}

int br_bcube_down(int argc, char **argv)
{
    bool all = false;
    const char *name = NULL;
    const struct br_option options[] = {
        {"name", 0, BR_OPTION_TEXT, &name, 0, 0,
         "NAME of the testbed, the same as the operand NAME (default: the only one)"},
        {"all", 0, BR_OPTION_FLAG, &all, 0, 0, " all testbeds of this user"},
        {0}};
    const char *usage = "braid bcube down [NAME | --name NAME | --all]\n\nRemoves an emulated "
                        "testbed, also one that was "
                        "left half made, and ends what "
                        "runs in it.";
    char names[LIST_MAX][BR_TESTBED_NAME];
    struct br_arguments arguments;
    int rc = br_arguments_parse(&arguments, options, usage, argc, argv);

    if (rc > 0)
        return 0;
    if (rc < 0)
        return down_complain("down", 2);
    if (arguments.command || arguments.count + (name != NULL) + all > 1) {
        fprintf(stderr, "braid bcube down: say one of NAME, --name NAME and --all\n");
        return 2;
    }
    if (!all)
        return take_down(name ? name : arguments.operands[0]);
    rc = 0;
    for (int i = 0, n = br_testbed_list(names, LIST_MAX); i < n; i++)
        rc |= take_down(names[i]);
    return rc;
}

static void list_one(const char *name)
{
    char rate[BR_RATE_TEXT], path[BR_TESTBED_FOLDER + 32];
    struct br_testbed testbed;

    if (br_testbed_open(&testbed, name, false) < 0 || br_testbed_check_ready(&testbed) < 0) {
        printf("%-12s %s\n", name, br_error_message());
        return;
    }
    printf("%-12s BCube(%u,%u), %u hosts, %s, MTU %u, %s\n", name, testbed.cube.n, testbed.cube.k,
           testbed.hosts,
           testbed.loopback ? "loopback"
           : testbed.rate   ? br_rate_print(testbed.rate, rate)
                            : "unshaped",
           testbed.mtu, br_testbed_path(&testbed, BR_TESTBED_INVENTORY, path));
}

int br_bcube_list(int argc, char **argv)
{
    const struct br_option options[] = {{0}};
    char names[LIST_MAX][BR_TESTBED_NAME];
    int rc = br_options_parse(options, "braid bcube list", argc, argv), n;

    if (rc > 0)
        return 0;
    if (rc < 0)
        return down_complain("list", 2);
    n = br_testbed_list(names, LIST_MAX);
    for (int i = 0; i < n; i++)
        list_one(names[i]);
    if (n == 0)
        puts("no testbeds; `braid bcube emulate 3 2` makes one");
    return 0;
}
