/* SPDX-License-Identifier: BSD-3-Clause */
/* Echoes and streams over every link, and which of them run at the same time. */
#include "tools/testbed/collect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/testbed/json.h"

#define ECHO_MS    60000
#define WARM_MS    30
#define MEASURE_MS 100
#define LONGEST_MS 2000
#define SEGMENTS   8 /* of 64 KiB that a measurement should see */
#define DOUBTFUL   0.85
#define AGAIN      64 /* links measured a second time, at most */
#define FAR_BELOW  0.6
#define ATTEMPTS   4 /* of rounds with a stream far below the best */
#define STEPS      3 /* rounds of all links at once, unless --full */

static cJSON *collect_measure_question(const char *verb)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "do", verb);
    return object;
}

static uint32_t collect_measure_from_port(const struct br_survey *survey, uint32_t link)
{
    return link / (survey->cube.n - 1);
}

static void add_target(struct br_collect *collect, cJSON *list, uint32_t link)
{
    const struct br_survey *survey = collect->survey;
    uint32_t from = collect_measure_from_port(survey, link), to = br_survey_link_end(survey, link);
    char text[BR_ADDRESS_TEXT];
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "id", link);
    cJSON_AddStringToObject(object, "nic", br_survey_nic(survey, from)->name);
    cJSON_AddStringToObject(object, "from",
                            br_address_text(survey->ports[from].address.ip, 33, text));
    cJSON_AddStringToObject(object, "to", br_address_text(survey->ports[to].address.ip, 33, text));
    cJSON_AddNumberToObject(object, "port", collect->service[br_survey_host_of(survey, to)]);
    cJSON_AddItemToArray(list, object);
}

/* One question to each host that has a chosen link; NULL: no memory, with a message. Freed by the
 * caller; br_agents_ask() takes what is in it. */
static cJSON **questions_for(struct br_collect *collect, const char *verb, const bool *chosen)
{
    const struct br_survey *survey = collect->survey;
    uint32_t per_host = survey->cube.k * (survey->cube.n - 1);
    cJSON **questions = calloc((size_t)collect->agents->count + 1, sizeof *questions);
    if (!questions)
        br_error(ENOMEM, "no memory for the measurements");
    for (int h = 0; h < collect->agents->count && questions; h++) {
        cJSON *list = NULL;
        for (uint32_t l = (uint32_t)h * per_host; l < ((uint32_t)h + 1) * per_host; l++) {
            if (!chosen[l])
                continue;
            if (!questions[h]) {
                questions[h] = collect_measure_question(verb);
                list = cJSON_AddArrayToObject(questions[h], "targets");
            }
            add_target(collect, list, l);
        }
    }
    return questions;
}

/* Asks all hosts at once about the chosen links. `add` puts more into each question, `read` takes
 * what is said of a link. */
static int collect_measure_ask(struct br_collect *collect, const char *verb, const bool *chosen,
                               void (*add)(const struct br_collect *collect, void *user,
                                           cJSON *question),
                               void (*read)(struct br_collect *collect, void *user, uint32_t link,
                                            const cJSON *result),
                               void *user)
{
    cJSON **questions = questions_for(collect, verb, chosen);
    if (!questions)
        return -ENOMEM;
    for (int h = 0; h < collect->agents->count; h++)
        if (questions[h])
            add(collect, user, questions[h]);
    br_agents_ask(collect->agents, questions, ECHO_MS);
    free(questions);
    for (int h = 0; h < collect->agents->count; h++) {
        const cJSON *item;
        cJSON_ArrayForEach(
            item, cJSON_GetObjectItemCaseSensitive(collect->agents->list[h].answer, "results"))
        {
            int64_t id = br_json_number(item, "id", -1);
            if (id >= 0 && id < br_survey_links(collect->survey))
                read(collect, user, (uint32_t)id, item);
        }
    }
    return 0;
}

/* ---- echoes ---------------------------------------------------------------------------------- */

static void add_echo(const struct br_collect *collect, void *user, cJSON *question)
{
    (void)user;
    cJSON_AddNumberToObject(question, "count", collect->full ? 500 : 60);
    cJSON_AddNumberToObject(question, "bytes", collect->survey->mtu);
}

static void read_echo(struct br_collect *collect, void *user, uint32_t id, const cJSON *item)
{
    struct br_survey_link *link = &collect->survey->links[id];
    (void)user;
    link->sent = (int)br_json_number(item, "sent", 0);
    link->got = (int)br_json_number(item, "got", 0);
    if (link->got > link->sent)
        link->got = link->sent;
    link->path_mtu = (int)br_json_number(item, "path_mtu", 0);
    const cJSON *low = cJSON_GetObjectItemCaseSensitive(item, "min_us"),
                *middle = cJSON_GetObjectItemCaseSensitive(item, "median_us");
    link->min_us = cJSON_IsNumber(low) ? low->valuedouble : 0;
    link->median_us = cJSON_IsNumber(middle) ? middle->valuedouble : 0;
    snprintf(link->message, sizeof link->message, "%s", br_json_text(item, "error", ""));
}

static bool start_services(struct br_collect *collect)
{
    collect->service = calloc((size_t)collect->agents->count + 1, sizeof *collect->service);
    if (!collect->service)
        return false;
    br_agents_ask_all(collect->agents, collect_measure_question("serve"), ECHO_MS);
    for (int h = 0; h < collect->agents->count; h++)
        collect->service[h] = (int)br_json_number(collect->agents->list[h].answer, "port", 0);
    return true;
}

int br_collect_echoes(struct br_collect *collect)
{
    struct br_survey *survey = collect->survey;
    uint32_t links = br_survey_links(survey);
    bool *chosen = calloc(links + 1, 1);
    if (collect->progress)
        collect->progress("echoes over every link");
    if (!chosen || !start_services(collect)) {
        free(chosen);
        return br_error(ENOMEM, "no memory for the echoes");
    }
    for (uint32_t l = 0; l < links; l++) {
        uint32_t from = collect_measure_from_port(survey, l), to = br_survey_link_end(survey, l);
        chosen[l] = br_survey_link_is(survey, l) && br_survey_alive(survey, from) &&
                    br_survey_alive(survey, to) &&
                    collect->service[br_survey_host_of(survey, to)] && survey->ports[to].address.ip;
        survey->links[l].probed = chosen[l];
    }
    int rc = collect_measure_ask(collect, "ping", chosen, add_echo, read_echo, NULL);
    free(chosen);
    return rc;
}

/* ---- streams --------------------------------------------------------------------------------- */

/* How long a measurement must be for large segments on slow links. */
static int64_t measure_ms(const struct br_collect *collect)
{
    double slowest = 0;
    for (uint32_t p = 0; p < br_survey_ports(collect->survey); p++) {
        double rate = collect->survey->ports[p].rate;
        if (rate > 0 && (slowest <= 0 || rate < slowest))
            slowest = rate;
    }
    double ms = slowest > 0 ? SEGMENTS * 65536.0 * 8 / slowest * 1e3 : 0;
    int64_t least = collect->full ? 3 * MEASURE_MS : MEASURE_MS;
    return ms > LONGEST_MS ? LONGEST_MS : ms > (double)least ? (int64_t)ms : least;
}

static void add_stream(const struct br_collect *collect, void *user, cJSON *question)
{
    (void)user;
    cJSON_AddNumberToObject(question, "warm_ms", WARM_MS);
    cJSON_AddNumberToObject(question, "measure_ms", (double)measure_ms(collect));
}

/* A better value than what stands there replaces it. */
static void read_stream(struct br_collect *collect, void *user, uint32_t id, const cJSON *item)
{
    struct br_survey_link *link = &collect->survey->links[id];
    const bool *together = user;
    int64_t ns = br_json_number(item, "ns", 0);
    double rate = ns > 0 ? (double)br_json_number(item, "bytes", 0) * 8e9 / (double)ns : 0;
    double *value = *together ? &link->together : &link->alone;
    *value = rate > *value ? rate : *value;
}

/* Streams over all chosen links at once. */
static int collect_measure_stream(struct br_collect *collect, const bool *chosen, bool together)
{
    int rc = collect_measure_ask(collect, "bulk", chosen, add_stream, read_stream, &together);
    collect->survey->loaded = collect->survey->loaded || !rc;
    return rc;
}

/* Whom a digit meets in a round of a tournament of all against all; -1: nobody. */
static int collect_measure_partner(uint32_t n, uint32_t round, uint32_t digit)
{
    uint32_t m = n % 2 ? n : n - 1;
    if (digit == m)
        /* the one that would meet itself: 2 i = round (mod m) */
        return (int)(round * ((m + 1) / 2) % m);
    uint32_t other = (round + m - digit) % m;
    if (other == digit)
        return n % 2 ? -1 : (int)m;
    return (int)other;
}

static bool collect_measure_works(const struct br_survey *survey, uint32_t link)
{
    return survey->links[link].probed && survey->links[link].got > 0;
}

static uint32_t digits_of(const struct br_survey *survey, uint32_t link, uint32_t *to)
{
    uint32_t from = collect_measure_from_port(survey, link),
             level = br_survey_level_of(survey, from);
    *to = br_bcube_digit(&survey->cube, br_survey_host_of(survey, br_survey_link_end(survey, link)),
                         level);
    return br_bcube_digit(&survey->cube, br_survey_host_of(survey, from), level);
}

/* Measures some links at once. */
typedef int run_links(struct br_collect *collect, const bool *chosen, void *user);

static int run_alone(struct br_collect *collect, const bool *chosen, void *user)
{
    (void)user;
    return collect_measure_stream(collect, chosen, false);
}

/* All links, in rounds in which a NIC has one at most; with --full only those of a level. */
static int in_rounds(struct br_collect *collect, bool *chosen, uint32_t level, run_links *run,
                     void *user)
{
    const struct br_survey *survey = collect->survey;
    uint32_t n = survey->cube.n, rounds = n % 2 ? n : n - 1;
    int rc = 0;
    for (uint32_t round = 0; round < 2 * rounds && !rc; round++) {
        bool upwards = round % 2, any = false;
        for (uint32_t l = 0; l < br_survey_links(survey); l++) {
            uint32_t to, from = digits_of(survey, l, &to);
            bool now = !collect->full ||
                       br_survey_level_of(survey, collect_measure_from_port(survey, l)) == level;
            chosen[l] = now && collect_measure_works(survey, l) && (from < to) == upwards &&
                        collect_measure_partner(n, round / 2, from) == (int)to;
            any |= chosen[l];
        }
        rc = any ? run(collect, chosen, user) : 0;
    }
    return rc;
}

static double level_best(const struct br_survey *survey, uint32_t level)
{
    double best = 0;
    for (uint32_t l = 0; l < br_survey_links(survey); l++)
        if (br_survey_level_of(survey, collect_measure_from_port(survey, l)) == level &&
            survey->links[l].alone > best)
            best = survey->links[l].alone;
    return best;
}

/* One after the other: a slow one shall have had no competition at all. */
static int collect_measure_again(struct br_collect *collect, bool *chosen)
{
    const struct br_survey *survey = collect->survey;
    int rc = 0, count = 0;
    for (uint32_t l = 0; l < br_survey_links(survey) && !rc && count < AGAIN; l++) {
        double best =
            level_best(survey, br_survey_level_of(survey, collect_measure_from_port(survey, l)));
        if (!collect_measure_works(survey, l) || survey->links[l].alone >= DOUBTFUL * best)
            continue;
        memset(chosen, 0, br_survey_links(survey));
        chosen[l] = true;
        rc = collect_measure_stream(collect, chosen, false);
        count++;
    }
    return rc;
}

static bool far_below(const struct br_survey *survey, uint32_t link)
{
    double best = 0;
    for (uint32_t l = 0; l < br_survey_links(survey); l++)
        if (br_survey_level_of(survey, collect_measure_from_port(survey, l)) ==
                br_survey_level_of(survey, collect_measure_from_port(survey, link)) &&
            survey->links[l].together > best)
            best = survey->links[l].together;
    return survey->links[link].together < FAR_BELOW * best;
}

/* All NICs send and receive: round `step` goes from each digit to the one that many further. */
static int collect_measure_together(struct br_collect *collect, bool *chosen)
{
    const struct br_survey *survey = collect->survey;
    uint32_t n = survey->cube.n;
    int rc = 0;
    /* A busy machine starves some stream in every round, but not the same ones. */
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        for (uint32_t step = 1; step < n && (collect->full || step <= STEPS) && !rc; step++) {
            bool doubtful = !attempt;
            for (uint32_t l = 0; l < br_survey_links(survey); l++) {
                uint32_t to, from = digits_of(survey, l, &to);
                chosen[l] = collect_measure_works(survey, l) && to == (from + step) % n;
                doubtful |= chosen[l] && far_below(survey, l);
            }
            rc = doubtful ? collect_measure_stream(collect, chosen, true) : 0;
        }
    }
    return rc;
}

int br_collect_rates(struct br_collect *collect)
{
    bool *chosen = calloc(br_survey_links(collect->survey) + 1, 1);
    int rc = 0;
    if (!chosen)
        return br_error(ENOMEM, "no memory for the rates");
    if (collect->progress)
        collect->progress("single links");
    for (uint32_t level = 0; level < (collect->full ? collect->survey->cube.k : 1) && !rc; level++)
        rc = in_rounds(collect, chosen, level, run_alone, NULL);
    if (!rc)
        rc = collect_measure_again(collect, chosen);
    if (collect->progress && !rc)
        collect->progress("all links at once");
    if (!rc)
        rc = collect_measure_together(collect, chosen);
    free(chosen);
    return rc;
}

struct trips {
    const double *sizes;
    double (*us)[BR_TRIP_SIZES];
};

static void add_trips(const struct br_collect *collect, void *user, cJSON *question)
{
    const struct trips *trips = user;
    (void)collect;
    cJSON_AddItemToObject(question, "sizes", cJSON_CreateDoubleArray(trips->sizes, BR_TRIP_SIZES));
}

static void read_trips(struct br_collect *collect, void *user, uint32_t id, const cJSON *item)
{
    const struct trips *trips = user;
    const cJSON *times = cJSON_GetObjectItemCaseSensitive(item, "us");
    (void)collect;
    for (int i = 0; i < BR_TRIP_SIZES; i++) {
        const cJSON *time = cJSON_GetArrayItem(times, i);
        trips->us[id][i] = cJSON_IsNumber(time) ? time->valuedouble : 0;
    }
}

static int run_trips(struct br_collect *collect, const bool *chosen, void *user)
{
    return collect_measure_ask(collect, "trips", chosen, add_trips, read_trips, user);
}

int br_collect_trips(struct br_collect *collect, const double sizes[BR_TRIP_SIZES],
                     double (*us)[BR_TRIP_SIZES])
{
    struct trips trips = {sizes, us};
    bool *chosen = calloc(br_survey_links(collect->survey) + 1, 1);
    int rc = 0;
    if (!chosen)
        return br_error(ENOMEM, "no memory for the measurements");
    if (collect->progress)
        collect->progress("messages of several sizes over every link");
    for (uint32_t level = 0; level < (collect->full ? collect->survey->cube.k : 1) && !rc; level++)
        rc = in_rounds(collect, chosen, level, run_trips, &trips);
    free(chosen);
    return rc;
}

void br_collect_end(struct br_collect *collect)
{
    free(collect->service);
    collect->service = NULL;
}
