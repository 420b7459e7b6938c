/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/algorithm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "collectives/schedule/builder.h"
#include "collectives/schedule/generators/alltoall.h"
#include "collectives/schedule/generators/binary_tree.h"
#include "collectives/schedule/generators/core_tree.h"
#include "collectives/schedule/generators/dissemination.h"
#include "collectives/schedule/generators/doubling.h"
#include "collectives/schedule/generators/disjoint_trees.h"
#include "collectives/schedule/generators/scan.h"
#include "collectives/schedule/generators/tree.h"

#define BIT(collective) (1u << (collective))
#define ROOTED          (BIT(BR_BROADCAST) | BIT(BR_REDUCE))
#define SPREAD          (BIT(BR_GATHER) | BIT(BR_SCATTER))
#define SCANS           (BIT(BR_SCAN) | BIT(BR_EXSCAN))
#define SHAPED          (BIT(BR_BARRIER) - 1) /* all that come before the barrier */

static const struct {
    const char *name;
    uint32_t collectives;
} algorithms[BR_ALGORITHMS] = {
    [BR_FLAT] = {"flat", ROOTED | SPREAD | BIT(BR_ALLREDUCE) | BIT(BR_BARRIER)},
    [BR_TREE] = {"tree", ROOTED | SPREAD | BIT(BR_ALLGATHER) | BIT(BR_REDUCE_SCATTER) |
                             BIT(BR_BARRIER) | BIT(BR_ALLTOALL)},
    [BR_CHAIN] = {"chain", ROOTED | SCANS},
    [BR_BINARY_TREE] = {"binary_tree", ROOTED | BIT(BR_ALLREDUCE)},
    [BR_DOUBLE_TREE] = {"double_tree", ROOTED | BIT(BR_ALLREDUCE)},
    [BR_DOUBLING] = {"doubling", BIT(BR_ALLREDUCE) | SCANS},
    [BR_HOST_TREE] = {"host_tree", BIT(BR_ALLREDUCE)},
    [BR_CORE_TREE] = {"core_tree", BIT(BR_ALLREDUCE) | BIT(BR_BARRIER) | BIT(BR_ALLGATHER) |
                                       BIT(BR_REDUCE_SCATTER)},
    [BR_DIRECT] = {"direct", SHAPED | BIT(BR_ALLTOALL)},
    [BR_RING] = {"ring", SHAPED},
    [BR_HALVING] = {"halving", SHAPED & ~BIT(BR_REDUCE)},
    [BR_BRUCK] = {"bruck", BIT(BR_ALLTOALL)},
    [BR_DIMENSIONAL] = {"dimensional", SHAPED},
    [BR_BML] = {"bml", SHAPED & ~BIT(BR_REDUCE)},
    [BR_BLUECONNECT] = {"blueconnect", SHAPED & ~BIT(BR_REDUCE)},
    [BR_DISJOINT_TREES] = {"disjoint_trees", BIT(BR_ALLREDUCE)},
    [BR_DISSEMINATION] = {"dissemination", BIT(BR_BARRIER)},
};

const char *br_algorithm_name(enum br_algorithm algorithm)
{
    return (unsigned)algorithm < BR_ALGORITHMS ? algorithms[algorithm].name : "?";
}

int br_algorithm_find(const char *name, enum br_algorithm *algorithm)
{
    char names[200];
    size_t used = 0;

    if (strcmp(name, "server") == 0)
        name = "direct";
    for (unsigned i = 0; i < BR_ALGORITHMS; i++) {
        if (strcmp(name, algorithms[i].name) == 0) {
            *algorithm = (enum br_algorithm)i;
            return 0;
        }
    }
    for (unsigned i = 0; i < BR_ALGORITHMS && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 algorithms[i].name);
    return br_error(EINVAL, "no algorithm is called '%s'; there are %s, server (which is direct)",
                    name, names);
}

/* Whatever request->packed says. */
static bool algorithm_find_shape(const struct br_schedule_request *request, struct br_shape *shape)
{
    uint32_t size = request->n;
    enum br_method method = BR_METHOD_DIRECT;

    if (!(BIT(request->collective) & SHAPED))
        return false;
    switch (request->algorithm) {
    case BR_DIMENSIONAL:
    case BR_BML:
    case BR_BLUECONNECT:
        *shape = request->shape;
        return true;
    case BR_DIRECT:
        break;
    case BR_RING:
        if (request->shape.n_dimensions > 0) {
            *shape = request->shape;
            return true;
        }
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
    *shape = (struct br_shape){
        .n_dimensions = 1, .threads = 1, .dimensions[0] = {size, method, BR_LEVEL_ANY}};
    return true;
}

bool br_algorithm_shape(const struct br_schedule_request *request, struct br_shape *shape)
{
    bool found = algorithm_find_shape(request, shape);

    for (uint32_t i = 0; found && request->packed && i < shape->n_dimensions; i++)
        if (shape->dimensions[i].method == BR_METHOD_HALVING)
            shape->dimensions[i].method = BR_METHOD_FAR_HALVING;
    return found;
}

bool br_algorithm_by_rank(enum br_algorithm algorithm, enum br_collective collective)
{
    bool ours = BIT(collective) & SCANS ? algorithm == BR_CHAIN
                                        : algorithm == BR_FLAT || algorithm == BR_DIRECT;

    return ours && br_collective_reduces(collective) &&
           algorithms[algorithm].collectives & BIT(collective);
}

bool br_algorithm_digits(enum br_algorithm algorithm)
{
    return algorithm == BR_TREE || algorithm == BR_BRUCK || algorithm == BR_DISSEMINATION;
}

/* A barrier, alltoall or tree digit by digit exchanges messages as an allreduce does, but nobody
 * folds. */
static int check_digits(const struct br_schedule_request *request)
{
    const struct br_shape *shape = &request->shape;
    uint32_t n = request->n;
    struct br_stages stages;
    int rc = br_shape_check(shape, BR_ALLREDUCE, n);

    if (rc)
        return rc;
    br_shape_stages(shape, 0, &stages);
    for (uint32_t i = 0; i < shape->n_dimensions; i++)
        if (shape->dimensions[i].method != BR_METHOD_DIRECT || stages.core != n)
            return br_error(EINVAL, "%s needs a shape of direct dimensions with all %u ranks",
                            br_algorithm_name(request->algorithm), n);
    return 0;
}

/* Of host_tree and core_tree. */
static int algorithm_check_places(const struct br_schedule_request *request)
{
    const struct br_dimension *d = request->shape.dimensions;
    const char *place = request->algorithm == BR_HOST_TREE ? "host" : "core";

    if (request->shape.n_dimensions != 2 || d[0].size < 2 || d[1].size < 2 ||
        (uint64_t)d[0].size * d[1].size != request->n)
        return br_error(EINVAL,
                        "%s needs two %ss or more with the same number of ranks, two or more on "
                        "each, one %s after the other",
                        br_algorithm_name(request->algorithm), place, place);
    return 0;
}

/* Of an alltoall a tree packs the blocks of a subtree for all ranks. */
static uint64_t algorithm_tree_packed(const struct br_schedule_request *request)
{
    uint64_t packed = br_tree_packed(BR_TREE_BINOMIAL, &request->shape, request->n);

    return request->collective == BR_ALLTOALL ? packed * request->n : packed;
}

static int algorithm_check_packed(const struct br_schedule_request *request)
{
    if (request->algorithm == BR_TREE && request->collective == BR_ALLTOALL &&
        algorithm_tree_packed(request) > BR_BUILDER_PACKED_MAX)
        return br_error(EINVAL,
                        "a tree has too many blocks in a message of an alltoall of %u ranks",
                        request->n);
    return 0;
}

static int algorithm_check_request(const struct br_schedule_request *request)
{
    struct br_shape shape;

    if ((unsigned)request->collective >= BR_COLLECTIVES ||
        (unsigned)request->algorithm >= BR_ALGORITHMS)
        return br_error(EINVAL, "no such collective (%d) or algorithm (%d)",
                        (int)request->collective, (int)request->algorithm);
    if (request->n == 0 || request->n > INT32_MAX || request->root >= request->n)
        return br_error(EINVAL, "there is no root %u among %u ranks", request->root, request->n);
    if (!(algorithms[request->algorithm].collectives & BIT(request->collective)))
        return br_error(EINVAL, "algorithm %s does not do %s",
                        br_algorithm_name(request->algorithm),
                        br_collective_name(request->collective));
    if (request->algorithm == BR_DISJOINT_TREES &&
        (!request->disjoint_trees || request->disjoint_trees->hosts != request->n))
        return br_error(EINVAL, "disjoint_trees needs a BCube of at most %u hosts",
                        BR_DISJOINT_TREES_HOSTS);
    if (request->algorithm == BR_HOST_TREE || request->algorithm == BR_CORE_TREE)
        return algorithm_check_places(request);
    if (br_algorithm_shape(request, &shape))
        return br_shape_check(&shape, request->collective, request->n);
    if (br_algorithm_digits(request->algorithm) && request->shape.n_dimensions > 0) {
        int rc = check_digits(request);

        if (rc)
            return rc;
    }
    return algorithm_check_packed(request);
}

int br_algorithm_check(const struct br_schedule_request *request)
{
    int rc = algorithm_check_request(request);

    if (!rc && request->packed && !br_algorithm_can_pack(request))
        return br_error(EINVAL, "algorithm %s has no messages to pack in %s on %u ranks",
                        br_algorithm_name(request->algorithm),
                        br_collective_name(request->collective), request->n);
    return rc;
}

uint32_t br_algorithm_pieces(const struct br_schedule_request *request)
{
    bool blocks = br_collective_by_blocks(request->collective);
    struct br_stages stages;
    struct br_shape shape;

    if (request->algorithm == BR_DISJOINT_TREES)
        return request->disjoint_trees->trees;
    if (!br_algorithm_shape(request, &shape))
        return request->algorithm == BR_DOUBLE_TREE ? 2 : 1;
    br_shape_stages(&shape, 0, &stages);
    return blocks ? shape.threads : shape.threads * stages.core;
}

bool br_algorithm_can_pack(const struct br_schedule_request *request)
{
    struct br_shape shape;
    uint32_t packed;

    if (!br_collective_by_blocks(request->collective))
        return false;
    if (request->algorithm == BR_TREE || request->algorithm == BR_CORE_TREE)
        return request->n > 1 && request->n <= BR_BUILDER_PACKED_MAX;
    if (!br_algorithm_shape(request, &shape))
        return false;
    packed = br_shape_packed(&shape, request->n);
    return packed > 1 && packed <= BR_BUILDER_PACKED_MAX;
}

uint32_t br_algorithm_packed(const struct br_schedule_request *request)
{
    struct br_shape shape;

    if (request->packed && br_algorithm_shape(request, &shape))
        return br_shape_packed(&shape, request->n);
    if (request->algorithm == BR_BRUCK)
        return br_bruck_packed(&request->shape, request->n);
    if (request->algorithm == BR_TREE && (BIT(request->collective) & (SPREAD | BIT(BR_ALLTOALL))))
        return (uint32_t)algorithm_tree_packed(request);
    if ((request->algorithm == BR_TREE || request->algorithm == BR_CORE_TREE) && request->packed)
        return request->n;
    return 1;
}

static int algorithm_generate(struct br_builder *builder, const struct br_schedule_request *request)
{
    static const struct br_shape none;
    struct br_shape shape;

    if (br_algorithm_shape(request, &shape))
        return br_generate_dimensional(builder, &shape, request->packed);
    switch (request->algorithm) {
    case BR_DISSEMINATION:
        return br_generate_dissemination(builder, &request->shape);
    case BR_BINARY_TREE:
    case BR_DOUBLE_TREE:
        br_generate_binary_tree(builder, request->algorithm == BR_BINARY_TREE ? 1 : 2);
        return 0;
    case BR_DISJOINT_TREES:
        br_generate_disjoint_trees(builder, request->disjoint_trees);
        return 0;
    case BR_DOUBLING:
        if (request->collective == BR_ALLREDUCE)
            br_generate_doubling(builder);
        else
            br_generate_scan_doubling(builder);
        return 0;
    case BR_HOST_TREE:
        br_generate_host_tree(builder, request->shape.dimensions[0].size);
        return 0;
    case BR_CORE_TREE:
        return br_generate_core_tree(builder, request->shape.dimensions[0].size, request->packed);
    case BR_DIRECT:
        br_generate_exchange(builder);
        return 0;
    case BR_BRUCK:
        return br_generate_bruck(builder, &request->shape);
    case BR_TREE:
        return br_generate_tree(builder, BR_TREE_BINOMIAL, &request->shape, request->packed);
    case BR_CHAIN:
        if (!(BIT(request->collective) & SCANS))
            return br_generate_tree(builder, BR_TREE_CHAIN, &none, false);
        br_generate_scan_chain(builder);
        return 0;
    default:
        return request->collective == BR_ALLREDUCE
                   ? br_generate_flat(builder)
                   : br_generate_tree(builder, BR_TREE_FLAT, &none, false);
    }
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
    rc = algorithm_generate(builder, request);
    end = br_builder_finish(builder, rc == 0 ? schedule : NULL);
    return rc != 0 ? rc : end;
}
