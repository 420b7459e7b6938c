/* SPDX-License-Identifier: BSD-3-Clause */
/* braid bcube exec: becomes a command on one host of an emulated testbed, so terminal, signals and
 * exit code are the command's. */
#include "base/error.h"
#include "tools/common/options.h"
#include "tools/testbed/bcube.h"
#include "tools/testbed/testbed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int exec_enter(struct br_testbed *testbed, const char *text)
{
    char space[BR_NAMESPACE_NAME], name[BR_TESTBED_HOST];
    uint32_t host = 0;
    int rc = br_testbed_check_ready(testbed);

    if (rc == 0)
        rc = br_testbed_parse_host(testbed, text, &host);
    if (rc < 0 || testbed->loopback)
        return rc;
    return br_namespace_enter(br_testbed_host_space(testbed, host, space),
                              br_testbed_host_name(testbed, host, name));
}

int br_bcube_exec(int argc, char **argv)
{
    const char *name = NULL,
               *usage = "braid bcube exec [--name NAME] HOST -- COMMAND [ARGUMENT...]";
    const struct br_option options[] = {
        {"name", 0, BR_OPTION_TEXT, &name, 0, 0, "NAME of the testbed (default: the only one)"},
        {0}};
    struct br_arguments arguments;
    struct br_testbed testbed;
    int rc = br_arguments_parse(&arguments, options, usage, argc, argv);

    if (rc > 0)
        return 0;
    if (rc == 0 && (arguments.count != 1 || !arguments.command))
        rc = br_error(EINVAL, "write it as: %s", usage);
    if (rc < 0 || !arguments.command) {
        fprintf(stderr, "braid bcube exec: %s\n", br_error_message());
        return 2;
    }
    rc = br_testbed_open(&testbed, name, false);
    if (rc == 0)
        rc = exec_enter(&testbed, arguments.operands[0]);
    if (rc < 0) {
        fprintf(stderr, "braid bcube exec: %s\n", br_error_message());
        return 1;
    }
    execvp(arguments.command[0], arguments.command);
    rc = errno == ENOENT ? 127 : 126;
    fprintf(stderr, "braid bcube exec: cannot run '%s': %s\n", arguments.command[0],
            strerror(errno));
    return rc;
}
