/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/algorithm.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "collectives/generators/dissemination.h"
#include "collectives/generators/flat.h"
#include "collectives/generators/tree.h"

#define BIT(collective) (1u << (collective))
#define ROOTED          (BIT(BR_BROADCAST) | BIT(BR_REDUCE))
#define SHAPED          (BIT(BR_BARRIER) - 1) /* all that come before the barrier */

static const struct {
    const char *name;
    uint32_t collectives;
} algorithms[BR_ALGORITHMS] = {
    [BR_FLAT] = {"flat", ROOTED | BIT(BR_ALLREDUCE)},
    [BR_TREE] = {"tree", ROOTED},
    [BR_CHAIN] = {"chain", ROOTED},
    [BR_DIRECT] = {"direct", SHAPED},
    [BR_RING] = {"ring", SHAPED},
    [BR_HALVING] = {"halving", SHAPED & ~BIT(BR_REDUCE)},
    [BR_DIMENSIONAL] = {"dimensional", SHAPED},
    [BR_DISSEMINATION] = {"dissemination", BIT(BR_BARRIER)},
};

const char *br_algorithm_name(enum br_algorithm algorithm)
{
    return (unsigned)algorithm < BR_ALGORITHMS ? algorithms[algorithm].name : "?";
}

int br_algorithm_find(const char *name, enum br_algorithm *algorithm)
{
    for (unsigned i = 0; i < BR_ALGORITHMS; i++) {
        if (strcmp(name, algorithms[i].name) == 0) {
            *algorithm = (enum br_algorithm)i;
            return 0;
        }
    }
    return br_error(EINVAL,
                    "no algorithm is called '%s'; there are flat, tree, chain, direct, ring, halving, "
                    "dimensional, dissemination",
                    name);
}

bool br_algorithm_shape(const struct br_schedule_request *request, struct br_shape *shape)
{
    uint32_t size = request->n;
    enum br_method method = BR_METHOD_DIRECT;

    switch (request->algorithm) {
    case BR_DIMENSIONAL:
        *shape = request->shape;
        return true;
    case BR_DIRECT:
        break;
    case BR_RING:
        method = BR_METHOD_RING;
        break;
    case BR_HALVING:
        method = BR_METHOD_HALVING;
        while ((size & (size - 1)) != 0)
            size &= size - 1;
        break;
    default:
        return false;
    }
    *shape =
        (struct br_shape){.n_dimensions = 1, .threads = 1, .dimensions[0] = {size, method, BR_LEVEL_ANY}};
    return true;
}

int br_algorithm_check(const struct br_schedule_request *request)
{
    struct br_shape shape;

    if ((unsigned)request->collective >= BR_COLLECTIVES || (unsigned)request->algorithm >= BR_ALGORITHMS)
        return br_error(EINVAL, "no such collective (%d) or algorithm (%d)", (int)request->collective,
                        (int)request->algorithm);
    if (request->n == 0 || request->n > INT32_MAX || request->root >= request->n)
        return br_error(EINVAL, "there is no root %u among %u ranks", request->root, request->n);
    if (!(algorithms[request->algorithm].collectives & BIT(request->collective)))
        return br_error(EINVAL, "algorithm %s does not do %s", br_algorithm_name(request->algorithm),
                        br_collective_name(request->collective));
    if (br_algorithm_shape(request, &shape))
        return br_shape_check(&shape, request->collective, request->n);
    return 0;
}

static int generate(struct br_builder *builder, const struct br_schedule_request *request)
{
    struct br_shape shape;

    if (br_algorithm_shape(request, &shape))
        return br_generate_dimensional(builder, &shape);
    if (request->algorithm == BR_DISSEMINATION) {
        br_generate_dissemination(builder);
        return 0;
    }
    if (request->collective == BR_ALLREDUCE)
        return br_generate_flat(builder);
    return br_generate_tree(builder, request->algorithm == BR_TREE    ? BR_TREE_BINOMIAL
                                     : request->algorithm == BR_CHAIN ? BR_TREE_CHAIN
                                                                      : BR_TREE_FLAT);
}

int br_algorithm_build(const struct br_schedule_request *request, struct br_schedule **schedule)
{
    struct br_builder *builder;
    int rc = br_algorithm_check(request), end;

    if (rc == 0 && request->rank >= request->n)
        rc = br_error(EINVAL, "there is no rank %u among %u", request->rank, request->n);
    if (rc == 0)
        rc = br_builder_new(&builder, request->collective, request->n, request->rank, request->root,
                            request->in_place);
    if (rc != 0)
        return rc;
    rc = generate(builder, request);
    end = br_builder_finish(builder, rc == 0 ? schedule : NULL);
    return rc != 0 ? rc : end;
}
