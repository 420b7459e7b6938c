/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/engine/call.h"

#include <stdio.h>
#include <string.h>

#include "collectives/schedule/type.h"

/* Numbers of another rank may be outside of their enums: names are "?" then. */
static void call_describe(const struct br_call *call, bool path, char *text, size_t bytes)
{
    bool uneven = (call->collective & BR_CALL_UNEVEN) != 0, known;
    enum br_collective collective = (enum br_collective)(call->collective & ~BR_CALL_UNEVEN);
    const char *name = uneven ? br_collective_uneven_name(collective) : NULL;
    char root[24] = "", reduction[24] = "", count[24] = "";
    static const char *const by[] = {"",
                                     " by messages",
                                     " in shared memory",
                                     " by GPU memory or messages",
                                     " by messages, for want of GPU memory",
                                     " in streams, all on GPUs"};

    known = collective < BR_COLLECTIVES;
    if (!name)
        name = br_collective_name(collective);
    if (!uneven || call->count)
        snprintf(count, sizeof count, "%llu ", (unsigned long long)call->count);
    if (known && br_collective_rooted(collective))
        snprintf(root, sizeof root, ", root %u", call->root);
    if (known && br_collective_reduces(collective) && call->reduction >= BR_CALL_USER_REDUCTION)
        snprintf(reduction, sizeof reduction, " (the program's own)");
    else if (known && br_collective_reduces(collective))
        snprintf(reduction, sizeof reduction, " (%s)",
                 br_reduction_name((enum braid_reduction)call->reduction));
    if (known && collective == BR_BARRIER)
        snprintf(text, bytes, "barrier%s", path && call->by <= BR_CALL_STREAM ? by[call->by] : "");
    else
        snprintf(text, bytes, "%s of %s%s%s%s%s", name, count,
                 br_type_name((enum braid_type)call->type), reduction, root,
                 path && call->by <= BR_CALL_STREAM ? by[call->by] : "");
}

/* The first thing in which they differ that explains the others. */
static const char *call_difference(const struct br_call *a, const struct br_call *b)
{
    return a->collective != b->collective   ? "collective"
           : a->type != b->type             ? "type"
           : a->count != b->count           ? "count"
           : a->reduction != b->reduction   ? "reduction"
           : a->root != b->root             ? "root"
           : a->collective & BR_CALL_UNEVEN ? "counts or algorithm"
                                            : "algorithm or settings";
}

void br_call_disagreement(int rank, int self, uint64_t tag, const struct br_call *theirs,
                          const struct br_call *ours, char *text, size_t bytes)
{
    uint32_t group = (uint32_t)(tag >> 52) & (BR_MAX_GROUPS - 1);
    const char *what = call_difference(theirs, ours);
    bool path = !strcmp(what, "algorithm or settings") && theirs->by != ours->by;
    char there[100], here[100], of[40] = "";

    if (group)
        snprintf(of, sizeof of, " of communicator %u", group);
    call_describe(theirs, path, there, sizeof there);
    call_describe(ours, path, here, sizeof here);
    snprintf(text, bytes,
             "rank %d and we (rank %d) disagree about operation %u%s (%s): %s there, %s here; all "
             "ranks must "
             "make the same calls in the same order",
             rank, self, (uint32_t)(tag >> 32) & 0xfffff, of, what, there, here);
}
