/* SPDX-License-Identifier: BSD-3-Clause */
/* braid bcube fault: injects faults into an emulated testbed and clears them. */
#include "base/error.h"
#include "tools/common/options.h"
#include "tools/testbed/bcube.h"
#include "tools/testbed/faults.h"
#include "tools/testbed/network.h"
#include "tools/testbed/testbed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void testbed_fault_list(const struct br_faults *faults, const struct br_testbed *testbed)
{
    for (int i = 0; i < faults->count; i++) {
        br_fault_print(&faults->fault[i], testbed, stdout);
        putchar('\n');
    }
}

/* Changes the list. */
static int testbed_fault_change(struct br_faults *faults, const struct br_testbed *testbed,
                                const struct br_arguments *arguments)
{
    struct br_fault fault = {0};
    bool inject = false;
    int rc;

    if (arguments->count == 1 && !strcmp(arguments->operands[0], "clear")) {
        faults->count = 0;
        return 0;
    }
    rc = br_fault_parse(&fault, &inject, testbed, arguments->count, arguments->operands);
    if (rc < 0)
        return rc;
    return inject ? br_faults_inject(faults, &fault) : br_faults_clear(faults, &fault, testbed);
}

/* The list is on the disk before the network is touched: a killed command is repeated, or the next
 * one finishes it. What the kernel does not take is taken back. */
static int testbed_fault_work(struct br_testbed *testbed, const struct br_arguments *arguments)
{
    static struct br_faults faults, before;
    int rc = br_testbed_check_ready(testbed);

    if (rc == 0)
        rc = br_faults_load(&faults, testbed);
    if (rc == 0 && arguments->count == 1 && !strcmp(arguments->operands[0], "list")) {
        testbed_fault_list(&faults, testbed);
        return 0;
    }
    if (rc == 0 && testbed->loopback)
        return br_error(
            EOPNOTSUPP,
            "testbed %s has addresses only, there is nothing to break: faults need namespaces, and "
            "those need root",
            testbed->name);
    before = faults;
    if (rc == 0)
        rc = testbed_fault_change(&faults, testbed, arguments);
    if (rc == 0)
        rc = br_faults_save(&faults, testbed);
    if (rc < 0)
        return rc;
    rc = br_network_apply(testbed, &faults);
    if (rc < 0) {
        fprintf(stderr, "braid bcube fault: %s\n", br_error_message());
        if (br_faults_save(&before, testbed) == 0 && br_network_apply(testbed, &before) == 0)
            br_error(-rc, "the testbed is as it was before");
    }
    return rc;
}

int br_bcube_fault(int argc, char **argv)
{
    const char *name = NULL, *usage = "braid bcube fault [--name NAME] FAULT";
    const struct br_option options[] = {
        {"name", 0, BR_OPTION_TEXT, &name, 0, 0, "NAME of the testbed (default: the only one)"},
        {0}};
    struct br_arguments arguments;
    struct br_testbed testbed;
    int rc = br_arguments_parse(&arguments, options, usage, argc, argv);

    if (rc > 0) {
        puts("\nFAULT is one of\n");
        br_fault_help(stdout);
        puts("  list                                            the injected faults\n"
             "  clear                                           clears all faults\n\n"
             "HOST is a name, a number or its digits \"[0,1]\"; SWITCH is s0-2 for switch 2 of "
             "level 0.\n"
             "down injects the fault, up and clear remove it; without either the fault is "
             "injected.");
        return 0;
    }
    if (rc == 0)
        rc = br_testbed_open(&testbed, name, true);
    if (rc == 0) {
        rc = testbed_fault_work(&testbed, &arguments);
        br_testbed_close(&testbed);
    }
    if (rc == 0)
        return 0;
    fprintf(stderr, "braid bcube fault: %s\n", br_error_message());
    return rc == -EINVAL ? 2 : 1;
}
