/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/plan/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cJSON.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/common/format.h"
#include "tools/common/output.h"
#include "tools/plan/simulate.h"
#include "tools/plan/timeline.h"
#include "tools/common/workload.h"
#include "training/session/policy.h"

/* One policy, planned. */
struct row {
    enum br_policy policy;
    struct br_policy_plan plan;
    struct br_timeline line, simulated;
    double planned_us; /* how long planning took */
};

struct table {
    const struct br_plan_settings *set;
    uint32_t ranks;
    struct br_tool_workload w;
    struct br_plan_simulation simulation;
    double compute; /* s */
    struct row rows[BR_POLICIES];
    int n;
};

static int add_row(struct table *t, enum br_policy policy)
{
    struct row *row = &t->rows[t->n];
    uint64_t start;
    int rc;

    row->policy = policy;
    row->plan.joins = malloc(t->w.load.n);
    if (!row->plan.joins)
        return br_error(ENOMEM, "no memory for a plan of %u layers", t->w.load.n);
    t->n++;
    rc = br_timeline_open(&row->line, t->w.load.n);
    if (!rc)
        rc = br_timeline_open(&row->simulated, t->w.load.n);
    if (rc)
        return rc;
    start = br_clock_now();
    rc = br_policy_make(policy, &t->w.load, &row->plan);
    row->planned_us = (double)(br_clock_now() - start) / 1e3;
    if (!rc)
        br_timeline_run(&row->line, &t->w.load, row->plan.joins, row->plan.urgent);
    if (!rc && t->set->simulate)
        rc = br_plan_simulation_run(&t->simulation, &t->w.load, &row->plan, false, &row->simulated);
    return rc;
}

/* What counts: simulated, or predicted. */
static const struct br_timeline *plan_model_cost_of(const struct table *t, const struct row *row)
{
    return t->set->simulate ? &row->simulated : &row->line;
}

static int make_rows(struct table *t)
{
    enum br_policy policy;
    int rc = 0;

    if (t->set->policy) {
        rc = br_policy_find(t->set->policy, &policy);
        return rc ? br_error_prefix(rc, "--policy ") : add_row(t, policy);
    }
    for (int p = 0; p < BR_POLICIES && !rc; p++)
        rc = add_row(t, (enum br_policy)p);
    return rc;
}

static const struct row *plan_model_best(const struct table *t)
{
    const struct row *row = &t->rows[0];

    for (int i = 1; i < t->n; i++)
        if (plan_model_cost_of(t, &t->rows[i])->iteration < plan_model_cost_of(t, row)->iteration)
            row = &t->rows[i];
    return row;
}

/* ---- what is printed ------------------------------------------------------------------------- */

static double forward_of(const struct table *t)
{
    double seconds = 0;

    for (uint32_t l = 0; l < t->w.load.n; l++)
        seconds += t->w.load.layers[l].forward;
    return seconds;
}

static void plan_model_print(const struct table *t)
{
    char bytes[BR_FORMAT_BYTES];
    double forward = forward_of(t);

    printf("# braid %s: %s\n", t->set->simulate ? "sim" : "plan", t->w.model.title);
    printf("# %u layers, %s of gradients; forward pass %.3f ms, backward pass %.3f ms", t->w.load.n,
           br_format_bytes(bytes, (double)t->w.model.parameters * sizeof(float)), forward * 1e3,
           (t->compute - forward) * 1e3);
    if (!t->set->times)
        printf(" (%lld samples, %s x 10^9 multiply-adds a second)", (long long)t->set->batch,
               t->set->speed ? t->set->speed : "1000");
    printf("\n# %u ranks; an all-reduce of M bytes takes a + b M: a %.4g us, b %.4g ns/B (%s)\n",
           t->ranks, t->w.load.cost.a * 1e6, t->w.load.cost.b * 1e9, t->w.cost);
    printf("# an urgent all-reduce amid others takes %.4g us longer\n", t->w.load.overtake * 1e6);
    if (t->set->simulate)
        printf("# simulated all-reduces: %s\n",
               t->set->algorithm ? t->set->algorithm
                                 : "auto, what the cost model takes for each size");
    puts("#");
    printf("# %-10s %11s %8s %13s %11s %9s %11s %11s%s\n", "policy", "all-reduces", "order",
           "iteration ms", "exposed ms", "speed-up", "efficiency", "planned us",
           t->set->simulate ? "  predicted ms    off" : "");
    for (int i = 0; i < t->n; i++) {
        const struct row *row = &t->rows[i];
        const struct br_timeline *line = plan_model_cost_of(t, row);
        double efficiency = line->iteration > 0 ? t->compute / line->iteration : 1;

        printf("%c %-10s %11u %8s %13.3f %11.3f %9.2f %9.1f %% %11.0f",
               row == plan_model_best(t) ? '*' : ' ', br_policy_name(row->policy), line->n_groups,
               row->plan.urgent ? "urgent" : "ready", line->iteration * 1e3, line->exposed * 1e3,
               t->ranks * efficiency, efficiency * 100, row->planned_us);
        if (t->set->simulate)
            printf(" %13.3f %+5.1f %%", row->line.iteration * 1e3,
                   line->iteration > 0 ? (row->line.iteration / line->iteration - 1) * 100 : 0);
        putchar('\n');
    }
}

static int plan_model_write_json(const struct table *t, FILE *out)
{
    cJSON *root = cJSON_CreateObject(), *rows;
    int rc;

    cJSON_AddStringToObject(root, "model", t->w.model.title);
    cJSON_AddNumberToObject(root, "ranks", t->ranks);
    cJSON_AddNumberToObject(root, "compute_s", t->compute);
    cJSON_AddNumberToObject(root, "a_s", t->w.load.cost.a);
    cJSON_AddNumberToObject(root, "b_s_per_byte", t->w.load.cost.b);
    rows = cJSON_AddArrayToObject(root, "policies");
    for (int i = 0; i < t->n; i++) {
        const struct row *row = &t->rows[i];
        cJSON *object = cJSON_CreateObject(), *firsts;

        cJSON_AddStringToObject(object, "policy", br_policy_name(row->policy));
        cJSON_AddBoolToObject(object, "urgent", row->plan.urgent);
        cJSON_AddNumberToObject(object, "iteration_s", row->line.iteration);
        cJSON_AddNumberToObject(object, "exposed_s", row->line.exposed);
        if (t->set->simulate) {
            cJSON_AddNumberToObject(object, "simulated_iteration_s", row->simulated.iteration);
            cJSON_AddNumberToObject(object, "simulated_exposed_s", row->simulated.exposed);
        }
        firsts = cJSON_AddArrayToObject(object, "groups_begin_with_layer");
        for (uint32_t g = row->line.n_groups; g-- > 0;)
            cJSON_AddItemToArray(firsts, cJSON_CreateNumber(row->line.groups[g].first + 1));
        cJSON_AddItemToArray(rows, object);
    }
    rc = br_output_json(out, root);
    cJSON_Delete(root);
    return rc;
}

static int plan_model_write_files(const struct table *t)
{
    struct br_timeline_view views[BR_POLICIES];
    FILE *out;
    int rc = 0;

    for (int i = 0; i < t->n; i++)
        views[i] = (struct br_timeline_view){br_policy_name(t->rows[i].policy), &t->w.model,
                                             plan_model_cost_of(t, &t->rows[i]), t->compute};
    if (t->set->layers)
        br_timeline_text(&views[plan_model_best(t) - t->rows], stdout);
    if (t->set->svg && (out = br_output_open(t->set->svg, true, &rc))) {
        br_timeline_svg(views, t->n, out);
        rc = br_output_close(out, t->set->svg, 0);
    }
    if (!rc && t->set->trace && (out = br_output_open(t->set->trace, true, &rc)))
        rc = br_output_close(out, t->set->trace, br_timeline_trace(views, t->n, out));
    if (!rc && t->set->json && (out = br_output_open(t->set->json, true, &rc)))
        rc = br_output_close(out, t->set->json, plan_model_write_json(t, out));
    return rc;
}

/* Which policy is the best is known only now, so its iterations run once more. They are the same to
 * the nanosecond. */
static int write_traces(struct table *t)
{
    struct br_timeline line;
    int rc;

    if (!t->simulation.traces)
        return 0;
    rc = br_timeline_open(&line, t->w.load.n);
    if (!rc)
        rc = br_plan_simulation_run(&t->simulation, &t->w.load, &plan_model_best(t)->plan, true,
                                    &line);
    br_timeline_close(&line);
    return rc;
}

static int open_workload(struct table *t, const struct br_cost_model *model, const char *figures)
{
    int rc = t->set->simulate ? br_plan_simulation_open(&t->simulation, t->set, model) : 0;

    if (!rc && t->set->simulate)
        rc = br_plan_simulation_open_traces(&t->simulation);
    if (!rc)
        rc = br_tool_workload_open(&t->w, t->set,
                                   t->set->simulate ? &t->simulation.config.model : model, figures);
    if (rc || !t->set->simulate || t->set->cost || t->set->links || t->ranks == 1)
        return rc;
    snprintf(t->w.cost, sizeof t->w.cost, "fitted to simulated all-reduces");
    rc = br_plan_simulation_cost(&t->simulation, &t->w.load, &t->w.load.cost);
    if (!rc && !t->set->overtake)
        rc = br_plan_simulation_overtake(&t->simulation, &t->w.load, &t->w.load.overtake);
    if (rc)
        br_tool_workload_close(&t->w);
    return rc;
}

int br_plan_model(const struct br_plan_settings *set, const struct br_cost_model *model,
                  const char *figures)
{
    struct table t = {.set = set, .ranks = model->topology->n};
    int rc = open_workload(&t, model, figures);

    if (rc)
        return br_plan_simulation_close_traces(&t.simulation, rc);
    t.compute = br_workload_compute(&t.w.load);
    rc = make_rows(&t);
    if (!rc) {
        plan_model_print(&t);
        rc = plan_model_write_files(&t);
    }
    if (!rc)
        rc = write_traces(&t);
    rc = br_plan_simulation_close_traces(&t.simulation, rc);
    for (int i = 0; i < t.n; i++) {
        br_timeline_close(&t.rows[i].line);
        br_timeline_close(&t.rows[i].simulated);
        free(t.rows[i].plan.joins);
    }
    br_tool_workload_close(&t.w);
    return rc;
}
