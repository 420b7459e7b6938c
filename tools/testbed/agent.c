/* SPDX-License-Identifier: BSD-3-Clause */
/* `braid bcube agent`: reads commands, answers them. */
#include "tools/testbed/agent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/testbed/bcube.h"
#include "tools/testbed/json.h"

static const struct verb {
    const char *name;
    int (*run)(struct br_agent *agent, const cJSON *request, cJSON *reply);
} verbs[] = {
    {"facts", br_agent_facts},
    {"listen", br_agent_listen},
    {"send_probes", br_agent_send_probes},
    {"seen_probes", br_agent_seen_probes},
    {"arp", br_agent_arp},
    {"serve", br_agent_serve},
    {"ping", br_agent_ping},
    {"bulk", br_agent_bulk},
    {"trips", br_agent_trips},
};

static int serve_line(struct br_agent *agent, const char *line, cJSON *reply)
{
    cJSON *request = cJSON_Parse(line);
    if (!cJSON_IsObject(request)) {
        cJSON_Delete(request);
        return br_error(EINVAL, "the agent takes one JSON object a line");
    }
    const char *verb = br_json_text(request, "do", "");
    int rc = -ENOSYS;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(verbs[i].name, verb))
            rc = verbs[i].run(agent, request, reply);
    if (rc == -ENOSYS)
        br_error(
            ENOSYS,
            "the agent has no command '%.40s': is braid on this host older than the checker's?",
            verb);
    cJSON_Delete(request);
    return rc;
}

static int agent_answer(cJSON *reply, int rc)
{
    cJSON_AddBoolToObject(reply, "ok", rc == 0);
    if (rc)
        cJSON_AddStringToObject(reply, "error", br_error_message());
    char *text = cJSON_PrintUnformatted(reply);
    if (!text)
        return -ENOMEM;
    int bad = puts(text) == EOF || fflush(stdout) == EOF;
    cJSON_free(text);
    return bad ? -EPIPE : 0;
}

int br_bcube_agent(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        fputs("braid bcube agent: takes no arguments; `braid bcube check` starts it\n", stderr);
        return 2;
    }
    struct br_agent agent = {0};
    char *line = NULL;
    size_t room = 0;
    int rc = 0;
    signal(SIGPIPE, SIG_IGN);
    while (!rc && getline(&line, &room, stdin) > 0) {
        cJSON *reply = cJSON_CreateObject();
        rc = reply ? agent_answer(reply, serve_line(&agent, line, reply)) : -ENOMEM;
        cJSON_Delete(reply);
    }
    br_agent_probe_close(agent.probe);
    br_agent_echo_close(agent.echo);
    free(line);
    return rc ? 1 : 0;
}
