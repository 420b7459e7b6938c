/* SPDX-License-Identifier: BSD-3-Clause */
/* What a host says reaches the terminal of whoever runs `braid bcube check`, so nothing of it may
 * be a command to that terminal. */
#include "tools/testbed/agents.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* An agent that is a shell script, on this machine. */
static void start(struct br_agents *agents, const char *script)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)script, NULL};

    *agents = (struct br_agents){.count = 1, .list = calloc(1, sizeof *agents->list)};
    assert_non_null(agents->list);
    agents->list->host = (struct br_remote_host){.kind = BR_REMOTE_HERE, .name = "h00"};
    agents->list->remote = (struct br_remote){.in = -1, .out = -1, .err = -1};
    assert_int_equal(br_remote_start(&agents->list->remote, &agents->list->host, argv), 0);
    agents->list->alive = true;
}

static void ask(struct br_agents *agents)
{
    cJSON *question = cJSON_CreateObject();

    cJSON_AddStringToObject(question, "do", "facts");
    br_agents_ask_all(agents, question, 60000);
}

static void assert_clean(const char *text)
{
    for (const char *c = text; *c; c++)
        if ((uint8_t)*c < 0x20 || *c == 0x7f || (uint8_t)*c == 0x9b)
            fail_msg("byte %02x is left in \"%s\"", (uint8_t)*c, text);
}

static void ask__escapes_in_every_text(void **state)
{
    struct br_agents agents;
    const cJSON *nics, *nic;

    (void)state;
    start(&agents,
          "read question; printf '%s\\n' '{\"ok\": true, \"hostname\": \"a\\u001b[31mb\", "
          "\"kernel\": \"c\\u009b2J\","
          " \"nics\": [{\"name\": \"eth0\", \"firmware\": \"\\u001b]0;owned\\u0007\\r\\n\"}],"
          " \"lldp\": [[\"x\\u007fy\"]], \"\\u001b[0mname\": 1}'; read more");
    ask(&agents);
    assert_non_null(agents.list->answer);
    assert_string_equal(cJSON_GetObjectItem(agents.list->answer, "hostname")->valuestring,
                        "a?[31mb");
    assert_clean(cJSON_GetObjectItem(agents.list->answer, "kernel")->valuestring);
    nics = cJSON_GetObjectItem(agents.list->answer, "nics");
    nic = cJSON_GetArrayItem(nics, 0);
    assert_string_equal(cJSON_GetObjectItem(nic, "name")->valuestring, "eth0");
    assert_string_equal(cJSON_GetObjectItem(nic, "firmware")->valuestring, "?]0;owned?? ");
    nic = cJSON_GetArrayItem(cJSON_GetObjectItem(agents.list->answer, "lldp"), 0);
    assert_string_equal(cJSON_GetArrayItem(nic, 0)->valuestring, "x?y");
    assert_non_null(cJSON_GetObjectItem(agents.list->answer, "?[0mname"));
    br_agents_stop(&agents);
}

static void ask__escapes_in_an_error(void **state)
{
    struct br_agents agents;

    (void)state;
    start(&agents, "read question; printf '%s\\n' '{\"ok\": false, \"error\": \"no "
                   "\\u001b[31mdevice\\n\"}'; read more");
    ask(&agents);
    assert_null(agents.list->answer);
    assert_string_equal(agents.list->message, "no ?[31mdevice ");
    br_agents_stop(&agents);
}

static void ask__escapes_on_stderr(void **state)
{
    struct br_agents agents;

    (void)state;
    start(&agents, "printf 'ssh: \\033]0;owned\\007 refused\\r\\nmore\\n' >&2; read question");
    ask(&agents);
    assert_false(agents.list->alive);
    assert_non_null(strstr(agents.list->message, "ssh: ?]0;owned? refused?"));
    assert_clean(agents.list->message);
    br_agents_stop(&agents);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ask__escapes_in_every_text),
        cmocka_unit_test(ask__escapes_in_an_error),
        cmocka_unit_test(ask__escapes_on_stderr),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
