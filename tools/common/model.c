/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/model.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define MOST_PARAMETERS (1ull << 40)

static int parse_layer(struct br_model *model, const char *line)
{
    struct br_model_layer *layer = &model->layers[model->count];
    unsigned long long parameters, multiply_adds;
    if (model->count == BR_MODEL_LAYERS)
        return -EINVAL;
    if (sscanf(line, "%*d,%63[^,],%*[^,],%llu,%llu", layer->name, &parameters, &multiply_adds) != 3)
        return -EINVAL;
    if (!parameters || parameters > MOST_PARAMETERS)
        return -EINVAL;
    layer->parameters = (size_t)parameters;
    layer->multiply_adds = multiply_adds;
    model->parameters += layer->parameters;
    model->count++;
    return 0;
}

static int common_model_parse(struct br_model *model, FILE *file, const char *path)
{
    char line[512];
    bool named = false; /* the line of column names has passed */
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        line[strcspn(line, "\r\n")] = 0;
        if (line[0] == '#') {
            if (!model->title[0])
                snprintf(model->title, sizeof model->title, "%.95s", line + strspn(line, "# "));
        } else if (line[0] && !named) {
            named = true;
        } else if (line[0] && parse_layer(model, line)) {
            return br_error(EINVAL,
                            "%s, line %d: must be "
                            "number,name,kind,parameters,forward_multiply_adds; at most %d "
                            "layers",
                            path, number, BR_MODEL_LAYERS);
        }
    }
    if (ferror(file))
        return br_error(errno, "%s: %s", path, strerror(errno));
    if (!model->title[0])
        snprintf(model->title, sizeof model->title, "%.95s", path);
    return model->count ? 0 : br_error(EINVAL, "%s has no layers", path);
}

int br_model_load(const char *path, struct br_model *model)
{
    memset(model, 0, sizeof *model);
    FILE *file = fopen(path, "r");
    if (!file)
        return br_error(errno, "%s: %s", path, strerror(errno));
    model->layers = calloc(BR_MODEL_LAYERS, sizeof *model->layers);
    int rc = model->layers ? common_model_parse(model, file, path)
                           : br_error(ENOMEM, "no memory for the layers of %s", path);
    fclose(file);
    if (rc)
        br_model_free(model);
    return rc;
}

void br_model_free(struct br_model *model)
{
    free(model->layers);
    memset(model, 0, sizeof *model);
}
