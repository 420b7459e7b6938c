/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/agents.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

#define ANSWER_MAX (16 << 20)
#define GRACE_MS   500

static void agents_lose(struct br_agents_host *one, const char *why)
{
    char said[200] = "";
    ssize_t bytes = one->remote.err >= 0 ? read(one->remote.err, said, sizeof said - 1) : 0;
    if (bytes > 0) /* ssh and the shell say best what is wrong */
        said[strcspn(said, "\n")] = 0;
    br_text_clean(said, false);
    snprintf(one->message, sizeof one->message, "%s%s%s", why, said[0] ? ": " : "", said);
    one->alive = one->waiting = false;
}

int br_agents_start(struct br_agents *agents, const struct br_inventory *inventory,
                    const char *program)
{
    static char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = 0;
    const char *found = inventory->access == BR_INVENTORY_SSH ? "braid" : self;
    char *argv[] = {(char *)(program ? program : found), (char *)"bcube", (char *)"agent", NULL};
    agents->count = (int)inventory->n_hosts;
    agents->list = calloc(inventory->n_hosts, sizeof *agents->list);
    if (!agents->list)
        return br_error(ENOMEM, "no memory for %d agents", agents->count);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < agents->count; i++) {
        struct br_agents_host *one = &agents->list[i];
        const struct br_inventory_host *host = &inventory->hosts[i];
        one->host = (struct br_remote_host){
            .kind = inventory->access == BR_INVENTORY_SSH ? BR_REMOTE_SSH : BR_REMOTE_NAMESPACE,
            .name = host->name,
            .where = host->access,
        };
        one->remote = (struct br_remote){.in = -1, .out = -1, .err = -1};
        if (host->missing)
            continue;
        one->alive = br_remote_start(&one->remote, &one->host, argv) == 0;
        if (!one->alive)
            snprintf(one->message, sizeof one->message, "%s", br_error_message());
    }
    return 0;
}

/* ---- one agent ------------------------------------------------------------------------------- */

static void put_question(struct br_agents_host *one, const cJSON *question)
{
    cJSON_Delete(one->answer);
    one->answer = NULL;
    if (!question || !one->alive)
        return;
    char *text = cJSON_PrintUnformatted(question);
    size_t length = text ? strlen(text) : 0;
    free(one->question);
    one->question = malloc(length + 1);
    if (!text || !one->question) {
        agents_lose(one, "no memory for the question");
    } else {
        memcpy(one->question, text, length);
        one->question[length] = '\n';
        one->length = length + 1;
        one->sent = 0;
        one->used = 0;
        one->waiting = true;
        one->message[0] = 0;
    }
    cJSON_free(text);
}

static void send_more(struct br_agents_host *one)
{
    ssize_t bytes = write(one->remote.in, one->question + one->sent, one->length - one->sent);
    if (bytes >= 0)
        one->sent += (size_t)bytes;
    else if (errno != EAGAIN && errno != EINTR)
        agents_lose(one, "the agent has ended");
}

/* Every text of an answer, so that nobody who prints one needs to think of it. cJSON has bounded
 * the depth. */
static void agents_clean(cJSON *item)
{
    for (; item; item = item->next) {
        if (item->string)
            br_text_clean(item->string, false);
        if (item->valuestring)
            br_text_clean(item->valuestring, false);
        agents_clean(item->child);
    }
}

static void take_answer(struct br_agents_host *one)
{
    one->line[one->used] = 0;
    one->answer = cJSON_Parse(one->line);
    agents_clean(one->answer);
    one->waiting = false;
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(one->answer, "ok")))
        return;
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(one->answer, "error");
    if (cJSON_IsString(error))
        snprintf(one->message, sizeof one->message, "%s", error->valuestring);
    else
        agents_lose(one, "what answers there is no agent of braid");
    cJSON_Delete(one->answer);
    one->answer = NULL;
}

static void receive_more(struct br_agents_host *one)
{
    if (one->capacity - one->used < 2) {
        size_t room = one->capacity ? 2 * one->capacity : 16384;
        char *moved = room <= ANSWER_MAX ? realloc(one->line, room) : NULL;
        if (!moved) {
            agents_lose(one, "its answer is too long");
            return;
        }
        one->line = moved;
        one->capacity = room;
    }
    ssize_t bytes = read(one->remote.out, one->line + one->used, one->capacity - one->used - 1);
    if (bytes == 0 || (bytes < 0 && errno != EAGAIN && errno != EINTR)) {
        agents_lose(one, "the agent has ended");
        return;
    }
    if (bytes <= 0)
        return;
    char *end = memchr(one->line + one->used, '\n', (size_t)bytes);
    one->used += (size_t)bytes;
    if (!end)
        return;
    one->used = (size_t)(end - one->line); /* one answer a question: nothing stands behind it */
    take_answer(one);
}

/* ---- all ------------------------------------------------------------------------------------- */

static int agents_fill(const struct br_agents *agents, struct pollfd *fds)
{
    int waiting = 0;
    for (int i = 0; i < agents->count; i++) {
        const struct br_agents_host *one = &agents->list[i];
        bool sends = one->waiting && one->sent < one->length;
        fds[2 * (size_t)i] = (struct pollfd){.fd = sends ? one->remote.in : -1, .events = POLLOUT};
        fds[2 * (size_t)i + 1] =
            (struct pollfd){.fd = one->waiting ? one->remote.out : -1, .events = POLLIN};
        waiting += one->waiting;
    }
    return waiting;
}

void br_agents_ask(struct br_agents *agents, cJSON **questions, int timeout_ms)
{
    uint64_t now = br_clock_now(), until = now + (uint64_t)timeout_ms * BR_MS;
    struct pollfd *fds = calloc((size_t)agents->count * 2 + 1, sizeof *fds);
    for (int i = 0; i < agents->count; i++)
        put_question(&agents->list[i], questions[i]);
    while (fds && agents_fill(agents, fds) && now < until) {
        poll(fds, (nfds_t)agents->count * 2, (int)((until - now) / BR_MS) + 1);
        for (int i = 0; i < agents->count; i++) {
            if (fds[2 * (size_t)i].revents && agents->list[i].waiting)
                send_more(&agents->list[i]);
            if (fds[2 * (size_t)i + 1].revents && agents->list[i].waiting)
                receive_more(&agents->list[i]);
        }
        now = br_clock_now();
    }
    for (int i = 0; i < agents->count; i++) {
        if (agents->list[i].waiting)
            agents_lose(&agents->list[i], "the agent did not answer in time");
        cJSON_Delete(questions[i]);
        questions[i] = NULL;
    }
    free(fds);
}

void br_agents_ask_all(struct br_agents *agents, cJSON *question, int timeout_ms)
{
    cJSON **questions = calloc((size_t)agents->count + 1, sizeof *questions);
    for (int i = 0; i < agents->count && questions; i++)
        questions[i] = cJSON_Duplicate(question, true);
    cJSON_Delete(question);
    if (questions)
        br_agents_ask(agents, questions, timeout_ms);
    free(questions);
}

void br_agents_stop(struct br_agents *agents)
{
    for (int i = 0; i < agents->count; i++) /* all see the end of their input at once */
        if (agents->list[i].remote.in >= 0) {
            close(agents->list[i].remote.in);
            agents->list[i].remote.in = -1;
        }
    for (int i = 0; i < agents->count; i++) {
        struct br_agents_host *one = &agents->list[i];
        if (one->remote.pid)
            br_remote_end(&one->remote, GRACE_MS);
        cJSON_Delete(one->answer);
        free(one->line);
        free(one->question);
    }
    free(agents->list);
    *agents = (struct br_agents){0};
}
