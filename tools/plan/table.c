/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/plan/table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cJSON.h>

#include "base/error.h"
#include "base/median.h"
#include "tools/common/output.h"

struct br_plan_table {
    bool exact, measured;
    FILE *file;
    const char *path;
    cJSON *root, *rows;
    size_t last_bytes;
    double *errors; /* of the predictions, absolute */
    size_t n_errors, capacity;
};

static void plan_table_header(const struct br_plan_table *t, const char *collective,
                              const struct br_cost_model *model, const char *figures)
{
    char text[BR_TOPOLOGY_TEXT];

    printf("# braid plan: %s on %s, %s\n", collective, br_topology_text(model->topology, text),
           figures);
    for (uint32_t l = 0; l < model->n_levels; l++)
        printf("# level %u: alpha %.3g us, overhead %.3g us (%.2g of it at the receiver), beta "
               "%.4g ns/B (%.4g Gb/s), one way %.4g\n",
               l, model->levels[l].alpha * 1e6, model->levels[l].overhead * 1e6,
               br_cost_received(model), model->levels[l].beta * 1e9, 8e-9 / model->levels[l].beta,
               br_cost_one_way(&model->levels[l]) * 1e9);
    if (model->link.beta > 0)
        printf("# a link, measured at the start: alpha %.3g us, beta %.4g ns/B\n",
               model->link.alpha * 1e6, model->link.beta * 1e9);
    printf("# gamma %.3g ns/B\n#\n", model->gamma * 1e9);
    printf("# %12s  %-24s %12s", "size (B)", "algorithm", "predicted us");
    if (t->exact)
        printf(" %12s", "exact us");
    if (t->measured)
        printf(" %12s %8s", "measured us", "error %");
    printf("  why\n");
}

struct br_plan_table *br_plan_table_new(const char *collective, const struct br_cost_model *model,
                                        const char *figures, const char *json, bool exact,
                                        bool measured)
{
    struct br_plan_table *t = calloc(1, sizeof *t);
    char text[BR_TOPOLOGY_TEXT];
    int rc;

    if (!t) {
        br_error(ENOMEM, "no memory for the plan");
        return NULL;
    }
    t->exact = exact;
    t->measured = measured;
    t->path = json;
    t->root = cJSON_CreateObject();
    cJSON_AddStringToObject(t->root, "collective", collective);
    cJSON_AddStringToObject(t->root, "topology", br_topology_text(model->topology, text));
    cJSON_AddStringToObject(t->root, "figures", figures);
    t->rows = cJSON_AddArrayToObject(t->root, "rows");
    if (json && !(t->file = br_output_open(json, true, &rc))) {
        br_plan_table_free(t);
        return NULL;
    }
    plan_table_header(t, collective, model, figures);
    return t;
}

static void keep_error(struct br_plan_table *t, double error)
{
    if (t->n_errors == t->capacity) {
        size_t room = t->capacity ? 2 * t->capacity : 64;
        double *more = realloc(t->errors, room * sizeof *more);

        if (!more)
            return;
        t->errors = more;
        t->capacity = room;
    }
    t->errors[t->n_errors++] = fabs(error);
}

static void add_to_json(struct br_plan_table *t, const struct br_plan_row *row)
{
    cJSON *object = cJSON_CreateObject();

    cJSON_AddNumberToObject(object, "bytes", (double)row->bytes);
    cJSON_AddStringToObject(object, "algorithm", row->algorithm);
    cJSON_AddNumberToObject(object, "fragments", row->fragments);
    cJSON_AddBoolToObject(object, "chosen", row->chosen);
    cJSON_AddNumberToObject(object, "predicted_us", row->predicted * 1e6);
    if (row->exact > 0)
        cJSON_AddNumberToObject(object, "exact_us", row->exact * 1e6);
    if (row->measured > 0)
        cJSON_AddNumberToObject(object, "measured_us", row->measured * 1e6);
    cJSON_AddStringToObject(object, "why", row->why);
    cJSON_AddItemToArray(t->rows, object);
}

static void print_time(double seconds)
{
    if (seconds > 0)
        printf(" %12.1f", seconds * 1e6);
    else
        printf(" %12s", "-");
}

void br_plan_table_add(struct br_plan_table *t, const struct br_plan_row *row)
{
    double predicted = row->exact > 0 ? row->exact : row->predicted;
    double error = row->measured > 0 ? predicted / row->measured - 1 : 0;

    if (row->bytes != t->last_bytes && t->last_bytes)
        printf("\n");
    t->last_bytes = row->bytes;
    printf("%c %12zu  %-24s %12.1f", row->chosen ? '*' : ' ', row->bytes, row->algorithm,
           row->predicted * 1e6);
    if (t->exact)
        print_time(row->exact);
    if (t->measured && row->measured > 0)
        printf(" %12.1f %+8.1f", row->measured * 1e6, error * 100);
    printf("  %s\n", row->why);
    fflush(stdout);
    if (row->measured > 0)
        keep_error(t, error);
    add_to_json(t, row);
}

int br_plan_table_finish(struct br_plan_table *t)
{
    int rc;

    if (t->n_errors) {
        double median = br_median(t->errors, t->n_errors);

        printf("#\n# median error of %zu predictions: %.1f %%\n", t->n_errors, median * 100);
        cJSON_AddNumberToObject(t->root, "median_error", median);
    }
    if (!t->file)
        return 0;
    rc = br_output_close(t->file, t->path, br_output_json(t->file, t->root));
    t->file = NULL;
    return rc;
}

void br_plan_table_free(struct br_plan_table *t)
{
    if (!t)
        return;
    if (t->file)
        br_output_close(t->file, t->path, -ECANCELED);
    cJSON_Delete(t->root);
    free(t->errors);
    free(t);
}
