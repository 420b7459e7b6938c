/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/tuning/calibration.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cJSON.h>

#include "base/error.h"
#include "base/file.h"
#include "braid/braid.h"
#include "collectives/schedule/type.h"

#define FORMAT     1
#define MOST_BYTES (1 << 20)

static const char *const classes[BR_COST_CLASSES] = {"4 bytes", "8 bytes", "2 bytes", "1 byte"};

/* ---- reading --------------------------------------------------------------------------------- */

static int not_json(const char *path)
{
    return br_error(EINVAL, "calibration %s is not JSON; write one with `braid calibrate`", path);
}

static int calibration_read_text(const char *path, char **text)
{
    FILE *file = fopen(path, "r");
    size_t n;
    int err;

    if (!file)
        return br_error(errno, "calibration %s: %s", path, strerror(errno));
    *text = calloc(1, MOST_BYTES + 1);
    if (!*text) {
        fclose(file);
        return br_error(ENOMEM, "no memory for the calibration %s", path);
    }
    errno = 0;
    n = fread(*text, 1, MOST_BYTES, file);
    err = ferror(file) ? errno : 0;
    fclose(file);
    if (err)
        return br_error(EINVAL, "calibration %s: %s", path, strerror(err));
    if (!n)
        return br_error(EINVAL, "calibration %s is empty", path);
    if (n == MOST_BYTES)
        return br_error(EINVAL, "calibration %s is larger than 1 MiB", path);
    return strlen(*text) == n ? 0 : not_json(path);
}

/* Texts are printed: those of somebody else's file must not speak to the terminal. */
static int calibration_check_text(const char *path, const char *name, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        /* UTF-8 has more of them behind 0xc2 */
        if (*at < ' ' || *at == 127 || (*at == 0xc2 && at[1] < 0xa0))
            return br_error(EINVAL, "calibration %s: \"%s\" has control characters in it", path,
                            name);
    return 0;
}

/* A number that the cost model takes: larger ones would make times infinite. */
static int calibration_get(const char *path, const cJSON *object, const char *name, double *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= BR_COST_MAX))
        return br_error(EINVAL, "calibration %s: \"%s\" is missing, or no number from 0 to %g",
                        path, name, BR_COST_MAX);
    *out = item->valuedouble;
    return 0;
}

static int get_text(const char *path, const cJSON *object, const char *name, char *out,
                    size_t bytes)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    if (!cJSON_IsString(item) || (size_t)snprintf(out, bytes, "%s", item->valuestring) >= bytes)
        return br_error(EINVAL,
                        "calibration %s: \"%s\" is missing, or no text of less than %zu characters",
                        path, name, bytes);
    return calibration_check_text(path, name, item->valuestring);
}

static int get_levels(const char *path, const cJSON *root, struct br_cost_model *model)
{
    const cJSON *levels = cJSON_GetObjectItemCaseSensitive(root, "levels"), *level;
    int rc = 0;

    if (!cJSON_IsArray(levels) || cJSON_GetArraySize(levels) < 1 ||
        cJSON_GetArraySize(levels) > BR_COST_LEVELS)
        return br_error(EINVAL, "calibration %s: \"levels\" must be a list of 1 to %d objects",
                        path, BR_COST_LEVELS);
    cJSON_ArrayForEach(level, levels)
    {
        struct br_cost_level *out = &model->levels[model->n_levels++];

        if ((rc = calibration_get(path, level, "alpha", &out->alpha)) ||
            (rc = calibration_get(path, level, "overhead", &out->overhead)) ||
            (rc = calibration_get(path, level, "beta", &out->beta)))
            return rc;
        if (out->beta == 0)
            return br_error(EINVAL, "calibration %s: beta of level %u is 0", path,
                            model->n_levels - 1);
        if (cJSON_GetObjectItemCaseSensitive(level, "one_way") && /* older files have none */
            (rc = calibration_get(path, level, "one_way", &out->one_way)))
            return rc;
        if (out->one_way > out->beta)
            return br_error(EINVAL, "calibration %s: one_way of level %u is above its beta", path,
                            model->n_levels - 1);
    }
    return 0;
}

/* Older files have none. */
static int get_machine(const char *path, const cJSON *root, struct br_cost_machine *out)
{
    const cJSON *machine = cJSON_GetObjectItemCaseSensitive(root, "machine");
    int rc;

    if (!machine)
        return 0;
    rc = calibration_get(path, machine, "overhead", &out->overhead);
    if (!rc && !(rc = calibration_get(path, machine, "beta", &out->beta)) &&
        !(rc = calibration_get(path, machine, "relayed_overhead", &out->relayed_overhead)))
        rc = calibration_get(path, machine, "relayed_beta", &out->relayed_beta);
    return rc;
}

static int get_gammas(const char *path, const cJSON *root, struct br_cost_model *model)
{
    const cJSON *gamma = cJSON_GetObjectItemCaseSensitive(root, "gamma");
    int rc = 0;

    for (int c = 0; c < BR_COST_CLASSES && !rc; c++)
        rc = calibration_get(path, gamma, classes[c], &model->gammas[c]);
    model->gamma = model->gammas[0];
    return rc;
}

/* ---- reading what need not be there: older files have none of it ----------------------------- */

static int get_text_if(const char *path, const cJSON *object, const char *name,
                       char out[BR_CALIBRATION_TEXT])
{
    return cJSON_GetObjectItemCaseSensitive(object, name)
               ? get_text(path, object, name, out, BR_CALIBRATION_TEXT)
               : 0;
}

/* A list, or nothing; cJSON takes other things for lists without items. */
static int get_list_if(const char *path, const cJSON *root, const char *name, const cJSON **list)
{
    *list = cJSON_GetObjectItemCaseSensitive(root, name);
    return !*list || cJSON_IsArray(*list)
               ? 0
               : br_error(EINVAL, "calibration %s: \"%s\" is no list", path, name);
}

static int get_types(const char *path, const cJSON *root, struct br_calibration *c)
{
    const cJSON *types = cJSON_GetObjectItemCaseSensitive(root, "types"), *type;
    int rc = 0;

    if (types && !cJSON_IsObject(types))
        return br_error(EINVAL, "calibration %s: \"types\" is no object", path);
    cJSON_ArrayForEach(type, types)
    {
        enum braid_type which;

        if ((rc = calibration_check_text(path, "types", type->string)))
            return rc;
        if (br_type_parse(type->string, &which))
            return br_error_prefix(-EINVAL, "calibration %s: \"types\": ", path);
        if ((rc = calibration_get(path, types, type->string, &c->types[which])))
            return rc;
    }
    return 0;
}

static int get_congestion(const char *path, const cJSON *root, struct br_calibration *c)
{
    const cJSON *list, *level;
    uint32_t i = 0;
    int rc = get_list_if(path, root, "congestion", &list);

    if (rc)
        return rc;
    cJSON_ArrayForEach(level, list)
    {
        struct br_calibration_congestion *out = &c->congestion[i];

        if (i++ == c->model.n_levels)
            return br_error(EINVAL, "calibration %s: \"congestion\" has more than %u levels", path,
                            c->model.n_levels);
        if ((rc = calibration_get(path, level, "alone", &out->alone)) ||
            (rc = calibration_get(path, level, "level", &out->level)) ||
            (rc = calibration_get(path, level, "levels", &out->levels)))
            return rc;
    }
    return 0;
}

static int get_points(const char *path, const cJSON *object, struct br_cost_measured *m)
{
    const cJSON *points = cJSON_GetObjectItemCaseSensitive(object, "points"), *point;
    bool good = cJSON_IsArray(points) && cJSON_GetArraySize(points) >= 2 &&
                cJSON_GetArraySize(points) <= BR_COST_POINTS;

    cJSON_ArrayForEach(point, points)
    {
        const cJSON *bytes = cJSON_GetArrayItem(point, 0), *seconds = cJSON_GetArrayItem(point, 1);
        uint32_t i = m->n_points;

        good = good && cJSON_IsNumber(bytes) && cJSON_IsNumber(seconds) &&
               isfinite(bytes->valuedouble) && bytes->valuedouble >= 1 &&
               seconds->valuedouble > 0 && seconds->valuedouble <= BR_COST_MAX &&
               (!i || bytes->valuedouble > m->bytes[i - 1]);
        if (!good)
            break;
        m->bytes[i] = bytes->valuedouble;
        m->seconds[i] = seconds->valuedouble;
        m->n_points++;
    }
    return good
               ? 0
               : br_error(
                     EINVAL,
                     "calibration %s: the \"points\" of an algorithm must be 2 to %d pairs [bytes, "
                     "seconds] with ascending sizes from 1 on",
                     path, BR_COST_POINTS);
}

static int get_algorithm(const char *path, const cJSON *object, struct br_topology *topology,
                         struct br_cost_measured *m)
{
    char collective[32], name[BR_ALGORITHM_TEXT];
    double ranks = 0;
    int rc;

    *m = (struct br_cost_measured){0};
    if ((rc = get_text(path, object, "collective", collective, sizeof collective)) ||
        (rc = get_text(path, object, "algorithm", name, sizeof name)) ||
        (rc = calibration_get(path, object, "ranks", &ranks)) ||
        (rc = calibration_get(path, object, "a", &m->fit.start)) ||
        (rc = calibration_get(path, object, "b", &m->fit.slope)) ||
        (rc = get_points(path, object, m)))
        return rc;
    m->ranks = ranks < 65536 ? (uint32_t)ranks : 0;
    if (topology->kind == BR_TOPOLOGY_BCUBE && m->ranks && m->ranks <= topology->cube.hosts)
        topology->n = m->ranks; /* the last hosts may be missing */
    if (m->ranks != topology->n)
        rc = br_error(EINVAL, "calibration %s: an algorithm of %g ranks, on a network of %u", path,
                      ranks, topology->n);
    if (!rc && (rc = br_collective_find(collective, &m->collective)) == 0)
        rc = br_algorithm_config_parse(topology, name, &m->config);
    return rc ? br_error_prefix(rc, "calibration %s: \"algorithms\": ", path) : 0;
}

static int get_algorithms(const char *path, const cJSON *root, struct br_calibration *c)
{
    const cJSON *list, *item;
    struct br_topology topology = {0};
    int rc = get_list_if(path, root, "algorithms", &list);

    if (rc || !list || !cJSON_GetArraySize(list))
        return rc;
    rc = br_topology_parse(&topology, c->topology);
    cJSON_ArrayForEach(item, list)
    {
        if (!rc && c->n_measured == BR_COST_MEASURED)
            rc =
                br_error(EINVAL, "calibration %s: more than %d algorithms", path, BR_COST_MEASURED);
        if (!rc)
            rc = get_algorithm(path, item, &topology, &c->measured[c->n_measured]);
        if (rc)
            break;
        c->n_measured++;
    }
    br_topology_destroy(&topology);
    return rc;
}

static int calibration_parse(const char *path, const char *text, struct br_calibration *c)
{
    cJSON *root = cJSON_ParseWithOpts(text, NULL, true);
    double format = 0;
    int rc;

    if (!root)
        return not_json(path);
    rc = calibration_get(path, root, "format", &format);
    if (!rc && format != FORMAT)
        rc = br_error(EINVAL, "calibration %s has format %g, this braid reads %d; measure again",
                      path, format, FORMAT);
    if (!rc && !(rc = get_text(path, root, "topology", c->topology, sizeof c->topology)) &&
        !(rc = get_text(path, root, "braid", c->version, sizeof c->version)) &&
        !(rc = get_text(path, root, "date", c->date, sizeof c->date)) &&
        !(rc = calibration_get(path, root, "copy", &c->model.copy)) &&
        !(rc = calibration_get(path, root, "relay", &c->model.relay)) &&
        !(rc = get_gammas(path, root, &c->model)) &&
        !(rc = get_machine(path, root, &c->model.machine)))
        rc = get_levels(path, root, &c->model);
    if (!rc && !(rc = get_types(path, root, c)) && !(rc = get_congestion(path, root, c)) &&
        !(rc = get_text_if(path, root, "system", c->system)) &&
        !(rc = get_text_if(path, root, "devices", c->devices)))
        rc = get_algorithms(path, root, c);
    cJSON_Delete(root);
    return rc;
}

int br_calibration_read(const char *path, struct br_calibration *calibration)
{
    char *text = NULL;
    int rc;

    memset(calibration, 0, sizeof *calibration);
    rc = calibration_read_text(path, &text);
    if (!rc)
        rc = calibration_parse(path, text, calibration);
    free(text);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Figures of a line, its points, and which sizes do not lie on it. `start` and `slope` are their
 * names. */
static void add_fit(cJSON *object, const struct br_cost_fit *fit, const char *start,
                    const char *slope, const double *bytes, const double *seconds, uint32_t n)
{
    char name[40];
    cJSON *outliers, *points;

    cJSON_AddNumberToObject(object, start, fit->start);
    cJSON_AddNumberToObject(object, slope, fit->slope);
    if (fit->n >= 3) { /* through two points goes one line alone */
        snprintf(name, sizeof name, "%s_interval", start);
        cJSON_AddNumberToObject(object, name, fit->start_error);
        snprintf(name, sizeof name, "%s_interval", slope);
        cJSON_AddNumberToObject(object, name, fit->slope_error);
    }
    cJSON_AddNumberToObject(object, "r2", fit->r2);
    outliers = cJSON_AddArrayToObject(object, "outliers");
    for (uint32_t i = 0; i < BR_COST_FIT_POINTS; i++)
        if (fit->outliers & 1u << i)
            cJSON_AddItemToArray(outliers, cJSON_CreateNumber(bytes[i]));
    points = cJSON_AddArrayToObject(object, "points");
    for (uint32_t i = 0; i < n; i++)
        cJSON_AddItemToArray(points,
                             cJSON_CreateDoubleArray((const double[]){bytes[i], seconds[i]}, 2));
}

static void calibration_add_links(cJSON *root, const struct br_calibration *c)
{
    cJSON *links = cJSON_AddArrayToObject(root, "links");

    for (uint32_t i = 0; i < c->n_links; i++) {
        const struct br_calibration_link *l = &c->links[i];
        cJSON *object = cJSON_CreateObject();

        cJSON_AddNumberToObject(object, "from", l->from);
        cJSON_AddNumberToObject(object, "to", l->to);
        cJSON_AddNumberToObject(object, "level", l->level);
        add_fit(cJSON_AddObjectToObject(object, "latency"), &l->trips, "alpha", "each_byte",
                l->trip_bytes, l->trip_seconds, l->n_trips);
        add_fit(cJSON_AddObjectToObject(object, "bandwidth"), &l->streams, "overhead", "beta",
                l->stream_bytes, l->stream_seconds, l->n_streams);
        cJSON_AddItemToArray(links, object);
    }
}

static void add_algorithms(cJSON *root, const struct br_calibration *c)
{
    cJSON *list = cJSON_AddArrayToObject(root, "algorithms");

    for (uint32_t i = 0; i < c->n_measured; i++) {
        const struct br_cost_measured *m = &c->measured[i];
        cJSON *object = cJSON_CreateObject();
        char name[BR_ALGORITHM_TEXT];

        cJSON_AddStringToObject(object, "collective", br_collective_name(m->collective));
        cJSON_AddStringToObject(object, "algorithm", br_algorithm_config_name(&m->config, name));
        cJSON_AddNumberToObject(object, "ranks", m->ranks);
        add_fit(object, &m->fit, "a", "b", m->bytes, m->seconds, m->n_points);
        cJSON_AddItemToArray(list, object);
    }
}

static void add_congestion(cJSON *root, const struct br_calibration *c)
{
    cJSON *list = cJSON_AddArrayToObject(root, "congestion");

    for (uint32_t i = 0; i < c->model.n_levels; i++) {
        cJSON *object = cJSON_CreateObject();

        cJSON_AddNumberToObject(object, "alone", c->congestion[i].alone);
        cJSON_AddNumberToObject(object, "level", c->congestion[i].level);
        cJSON_AddNumberToObject(object, "levels", c->congestion[i].levels);
        cJSON_AddItemToArray(list, object);
    }
}

static void add_more(cJSON *root, const struct br_calibration *c)
{
    cJSON *types = cJSON_CreateObject();

    cJSON_AddStringToObject(root, "system", c->system);
    cJSON_AddStringToObject(root, "devices", c->devices);
    for (int t = 0; t < BRAID_TYPES; t++)
        if (c->types[t] > 0)
            cJSON_AddNumberToObject(types, br_type_name((enum braid_type)t), c->types[t]);
    cJSON_AddItemToObject(root, "types", types);
    add_congestion(root, c);
    if (c->n_measured)
        add_algorithms(root, c);
    if (c->n_links)
        calibration_add_links(root, c);
}

static void calibration_add_machine(cJSON *root, const struct br_cost_machine *m)
{
    cJSON *machine = cJSON_AddObjectToObject(root, "machine");

    cJSON_AddNumberToObject(machine, "overhead", m->overhead);
    cJSON_AddNumberToObject(machine, "beta", m->beta);
    cJSON_AddNumberToObject(machine, "relayed_overhead", m->relayed_overhead);
    cJSON_AddNumberToObject(machine, "relayed_beta", m->relayed_beta);
}

static cJSON *calibration_make(const struct br_calibration *c)
{
    cJSON *root = cJSON_CreateObject(), *levels, *gamma;

    cJSON_AddNumberToObject(root, "format", FORMAT);
    cJSON_AddStringToObject(root, "braid", c->version);
    cJSON_AddStringToObject(root, "date", c->date);
    cJSON_AddStringToObject(root, "topology", c->topology);
    levels = cJSON_AddArrayToObject(root, "levels");
    for (uint32_t i = 0; i < c->model.n_levels; i++) {
        cJSON *level = cJSON_CreateObject();

        cJSON_AddNumberToObject(level, "alpha", c->model.levels[i].alpha);
        cJSON_AddNumberToObject(level, "overhead", c->model.levels[i].overhead);
        cJSON_AddNumberToObject(level, "beta", c->model.levels[i].beta);
        if (c->model.levels[i].one_way > 0)
            cJSON_AddNumberToObject(level, "one_way", c->model.levels[i].one_way);
        cJSON_AddItemToArray(levels, level);
    }
    gamma = cJSON_AddObjectToObject(root, "gamma");
    for (int i = 0; i < BR_COST_CLASSES; i++)
        cJSON_AddNumberToObject(gamma, classes[i], br_cost_gamma(&c->model, (enum br_cost_class)i));
    cJSON_AddNumberToObject(root, "copy", c->model.copy);
    cJSON_AddNumberToObject(root, "relay", c->model.relay);
    if (c->model.machine.beta > 0)
        calibration_add_machine(root, &c->model.machine);
    add_more(root, c);
    return root;
}

int br_calibration_write(const char *path, const struct br_calibration *calibration)
{
    cJSON *root = calibration_make(calibration);
    char *text = cJSON_Print(root);
    struct br_file file = {0};
    int rc = text ? br_file_open(&file, "calibration", path, false)
                  : br_error(ENOMEM, "no memory for the calibration %s", path);

    if (!rc)
        fprintf(file.stream, "%s\n", text);
    rc = br_file_close(&file, "calibration", rc);
    cJSON_free(text);
    cJSON_Delete(root);
    return rc;
}

int br_calibration_check(const struct br_calibration *c, const struct br_topology *topology)
{
    uint32_t levels = br_topology_levels(topology); /* 0: flat, with figures of one */
    char here[BR_TOPOLOGY_TEXT];
    size_t kind;

    br_topology_text(topology, here);
    kind = strcspn(here, ":") + 1;
    if (strncmp(here, c->topology, kind) == 0 && (levels ? levels : 1) == c->model.n_levels)
        return 0;
    return br_error(
        EINVAL,
        "the calibration was measured on %s with %u levels, but the network is %s; measure it with "
        "`braid calibrate`",
        c->topology, c->model.n_levels, here);
}

/* "; it was A then and is B now" behind what is there already. */
static void add_change(char text[BR_CALIBRATION_STALE_TEXT], const char *what, const char *then,
                       const char *now)
{
    size_t used = strlen(text);

    if (*then && *now && strcmp(then, now) != 0)
        snprintf(text + used, BR_CALIBRATION_STALE_TEXT - used, "%s%s %.100s, now %.100s",
                 used ? "; " : "", what, then, now);
}

bool br_calibration_stale(const struct br_calibration *c, const struct br_topology *topology,
                          const char *devices, const bool *oversubscribed,
                          char text[BR_CALIBRATION_STALE_TEXT])
{
    bool was_oversubscribed = c->model.machine.beta > 0;
    char here[BR_TOPOLOGY_TEXT];

    text[0] = 0;
    add_change(text, "measured on", c->topology, br_topology_text(topology, here));
    add_change(text, "over", c->devices, devices);
    add_change(text, "with braid", c->version, braid_version());
    if (oversubscribed && *oversubscribed != was_oversubscribed)
        add_change(text, "where all ranks",
                   was_oversubscribed ? "shared few cores" : "did not share few cores",
                   *oversubscribed ? "they do" : "they do not");
    return text[0] != 0;
}
