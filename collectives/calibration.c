/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/calibration.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cJSON.h>

#include "base/error.h"

#define FORMAT     1
#define MOST_BYTES (1 << 20)

static const char *const classes[BR_COST_CLASSES] = {"4 bytes", "8 bytes", "2 bytes", "1 byte"};

/* ---- reading -------------------------------------------------------------------------------- */

static int read_text(const char *path, char **text)
{
    FILE *file = fopen(path, "r");
    size_t n;

    if (!file)
        return br_error(errno, "calibration %s: %s", path, strerror(errno));
    *text = calloc(1, MOST_BYTES + 1);
    if (!*text) {
        fclose(file);
        return br_error(ENOMEM, "no memory for the calibration %s", path);
    }
    n = fread(*text, 1, MOST_BYTES, file);
    fclose(file);
    return n && n < MOST_BYTES
               ? 0
               : br_error(EINVAL, "calibration %s is empty, no file, or larger than 1 MiB", path);
}

/* A number that is finite and not negative. */
static int get(const char *path, const cJSON *object, const char *name, double *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble) || item->valuedouble < 0)
        return br_error(EINVAL, "calibration %s: \"%s\" is missing, or no number from 0 on", path, name);
    *out = item->valuedouble;
    return 0;
}

static int get_text(const char *path, const cJSON *object, const char *name, char *out, size_t bytes)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    if (!cJSON_IsString(item) || (size_t)snprintf(out, bytes, "%s", item->valuestring) >= bytes)
        return br_error(EINVAL, "calibration %s: \"%s\" is missing, or no text of less than %zu characters",
                        path, name, bytes);
    return 0;
}

static int get_levels(const char *path, const cJSON *root, struct br_cost_model *model)
{
    const cJSON *levels = cJSON_GetObjectItemCaseSensitive(root, "levels"), *level;
    int rc = 0;

    if (!cJSON_IsArray(levels) || cJSON_GetArraySize(levels) < 1 ||
        cJSON_GetArraySize(levels) > BR_COST_LEVELS)
        return br_error(EINVAL, "calibration %s: \"levels\" must be a list of 1 to %d objects", path,
                        BR_COST_LEVELS);
    cJSON_ArrayForEach(level, levels)
    {
        struct br_cost_level *out = &model->levels[model->n_levels++];

        if ((rc = get(path, level, "alpha", &out->alpha)) ||
            (rc = get(path, level, "overhead", &out->overhead)) ||
            (rc = get(path, level, "beta", &out->beta)))
            return rc;
        if (out->beta == 0)
            return br_error(EINVAL, "calibration %s: beta of level %u is 0", path, model->n_levels - 1);
    }
    return 0;
}

static int get_gammas(const char *path, const cJSON *root, struct br_cost_model *model)
{
    const cJSON *gamma = cJSON_GetObjectItemCaseSensitive(root, "gamma");
    int rc = 0;

    for (int c = 0; c < BR_COST_CLASSES && !rc; c++)
        rc = get(path, gamma, classes[c], &model->gammas[c]);
    model->gamma = model->gammas[0];
    return rc;
}

static int parse(const char *path, const char *text, struct br_calibration *c)
{
    cJSON *root = cJSON_Parse(text);
    double format = 0;
    int rc;

    if (!root)
        return br_error(EINVAL, "calibration %s is not JSON; write one with `braid plan --measure`", path);
    rc = get(path, root, "format", &format);
    if (!rc && format != FORMAT)
        rc = br_error(EINVAL, "calibration %s has format %g, this braid reads %d; measure again", path,
                      format, FORMAT);
    if (!rc && !(rc = get_text(path, root, "topology", c->topology, sizeof c->topology)) &&
        !(rc = get_text(path, root, "braid", c->version, sizeof c->version)) &&
        !(rc = get_text(path, root, "date", c->date, sizeof c->date)) &&
        !(rc = get(path, root, "copy", &c->model.copy)) &&
        !(rc = get(path, root, "relay", &c->model.relay)) && !(rc = get_gammas(path, root, &c->model)))
        rc = get_levels(path, root, &c->model);
    cJSON_Delete(root);
    return rc;
}

int br_calibration_read(const char *path, struct br_calibration *calibration)
{
    char *text = NULL;
    int rc;

    memset(calibration, 0, sizeof *calibration);
    rc = read_text(path, &text);
    if (!rc)
        rc = parse(path, text, calibration);
    free(text);
    return rc;
}

/* ---- writing -------------------------------------------------------------------------------- */

static cJSON *make(const struct br_calibration *c)
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
        cJSON_AddItemToArray(levels, level);
    }
    gamma = cJSON_AddObjectToObject(root, "gamma");
    for (int i = 0; i < BR_COST_CLASSES; i++)
        cJSON_AddNumberToObject(gamma, classes[i], br_cost_gamma(&c->model, (enum br_cost_class)i));
    cJSON_AddNumberToObject(root, "copy", c->model.copy);
    cJSON_AddNumberToObject(root, "relay", c->model.relay);
    return root;
}

int br_calibration_write(const char *path, const struct br_calibration *calibration)
{
    cJSON *root = make(calibration);
    char *text = cJSON_Print(root);
    FILE *file = text ? fopen(path, "w") : NULL;
    int rc = 0;

    if (!text)
        rc = br_error(ENOMEM, "no memory for the calibration %s", path);
    else if (!file)
        rc = br_error(errno, "calibration %s: %s", path, strerror(errno));
    if (file && fprintf(file, "%s\n", text) < 0)
        rc = br_error(EIO, "calibration %s: cannot write", path);
    if (file && fclose(file) != 0 && !rc)
        rc = br_error(EIO, "calibration %s: %s", path, strerror(errno));
    cJSON_free(text);
    cJSON_Delete(root);
    return rc;
}

int br_calibration_check(const struct br_calibration *c, const struct br_topology *topology)
{
    char here[BR_TOPOLOGY_TEXT];
    size_t kind;

    br_topology_text(topology, here);
    kind = strcspn(here, ":") + 1;
    if (strncmp(here, c->topology, kind) == 0 &&
        (topology->kind == BR_TOPOLOGY_FLAT || br_topology_levels(topology) == c->model.n_levels))
        return 0;
    return br_error(
        EINVAL,
        "the calibration was measured on %s with %u levels, but the network is %s; measure it with "
        "`braid plan --measure`",
        c->topology, c->model.n_levels, here);
}
