/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/direct.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/downgrade.h"
#include "base/log.h"
#include "base/process.h"
#include "base/process_read.h"
#include "collectives/schedule/type.h"

/* false: the process has another number in this rank's namespace, too. */
static bool direct_copy(const struct br_shm_offer *offer, uint64_t address, void *out, size_t bytes)
{
    return br_process_read((pid_t)offer->process, address, out, bytes, offer->token_address,
                           offer->token);
}

bool br_shm_direct_possible(void)
{
    static const uint64_t tokens[2] = {4711, 4712};
    struct br_shm_offer mine = {
        .token_address = (uintptr_t)&tokens[0], .token = tokens[0], .process = (uint64_t)getpid()};
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re"); /* absent: as 0 */
    int scope = 0;
    uint64_t out = 0;

    if (file && fscanf(file, "%d", &scope) != 1)
        scope = 1;
    if (file)
        fclose(file);
    return !scope && direct_copy(&mine, (uintptr_t)&tokens[1], &out, sizeof out) &&
           out == tokens[1];
}

void br_shm_direct_offer(struct br_shm_direct *direct, const struct br_operation *op,
                         struct br_shm_offer *offer)
{
    /* In place a block of an alltoall may be overwritten before the rank that it is for reads it.
     */
    bool readable = op->collective != BR_ALLTOALL || op->send != op->recv;

    direct->ranks_done = 0;
    direct->bytes_done = 0;
    direct->outcome = BR_SHM_READ;
    *offer = (struct br_shm_offer){.address = readable ? (uintptr_t)op->send : 0,
                                   .token_address = (uintptr_t)&direct->token,
                                   .token = direct->token,
                                   .process = (uint64_t)getpid()};
}

/* As ways know it: of what each rank gives. */
static uint32_t direct_length(const struct br_operation *op)
{
    size_t block = op->count * br_type_size(op->type);

    return block < UINT32_MAX ? (uint32_t)block : UINT32_MAX;
}

/* All ranks have begun this gather: its root takes the way that has cost less. */
static void direct_choose(struct br_shm_direct *direct, const struct br_operation *op)
{
    direct->gather = br_ways_post(&direct->ways, direct_length(op));
    direct->gather.posted = br_clock_now();
    direct->gather.worked = UINT64_MAX; /* all of the time counts */
    if (direct->gather.way == BR_WAY_PIPE)
        direct->outcome = BR_SHM_BY_CHUNKS;
}

void br_shm_direct_ended(struct br_shm_direct *direct, const struct br_operation *op)
{
    /* where the kernel has refused, the time is that of both ways */
    bool one_way = direct->outcome <= BR_SHM_BY_CHUNKS;

    br_ways_returned(&direct->ways, &direct->gather, one_way ? direct_length(op) : 0,
                     br_clock_now());
    direct->gather.burst = 0;
}

bool br_shm_direct_read(struct br_shm_direct *direct, const struct br_shm_coll *coll,
                        const struct br_operation *op, uint64_t epoch)
{
    bool from_root = br_collective_from_root(op->collective),
         to_root = br_collective_to_root(op->collective);
    size_t block = op->count * br_type_size(op->type), left = BR_SHM_DIRECT_TURN;
    uint32_t first = from_root ? (uint32_t)op->root : coll->rank, /* not all from the same one */
        ranks = from_root ? 1 : coll->ranks;

    if (to_root) {
        if (coll->rank != (uint32_t)op->root)
            return true;
        if (!direct->gather.burst)
            direct_choose(direct, op);
        if (direct->outcome != BR_SHM_READ)
            return true;
    }
    while (direct->ranks_done < ranks && left) {
        uint32_t rank = (first + direct->ranks_done) % coll->ranks;
        const struct br_shm_offer *offer = br_shm_coll_data(coll, rank, epoch, sizeof *offer);
        size_t rest = block - direct->bytes_done, bytes = rest < left ? rest : left,
               from = (to_root ? 0 : coll->rank * block) + direct->bytes_done;
        uint8_t *out = (uint8_t *)op->recv + (from_root ? 0 : rank * block) + direct->bytes_done;

        if (!offer->address)
            direct->outcome = BR_SHM_IN_PLACE;
        else if (rank != coll->rank && (!direct_copy(offer, offer->address + from, out, bytes) ||
                                        br_shm_coll_has_withdrawn(coll, rank)))
            direct->outcome = BR_SHM_REFUSED;
        else if (rank == coll->rank && out != (const uint8_t *)op->send + from)
            br_copy(out, (const uint8_t *)op->send + from, bytes);
        if (direct->outcome != BR_SHM_READ)
            return true;
        if (rank != coll->rank)
            *direct->read_bytes += bytes;
        left -= bytes;
        direct->bytes_done += bytes;
        if (direct->bytes_done == block) {
            direct->ranks_done++;
            direct->bytes_done = 0;
        }
    }
    return direct->ranks_done == ranks;
}

bool br_shm_direct_agreed(struct br_shm_direct *direct, const struct br_shm_coll *coll,
                          uint64_t epoch)
{
    enum br_shm_outcome worst = BR_SHM_READ;

    for (uint32_t r = 0; r < coll->ranks; r++) {
        const enum br_shm_outcome *outcome = br_shm_coll_data(coll, r, epoch, sizeof *outcome);

        worst = *outcome > worst ? *outcome : worst;
    }
    if (worst == BR_SHM_REFUSED) {
        BR_DISABLE_CANCELLATION; /* the log may write */

        direct->allowed = false;
        br_downgrade(direct_reads);
        br_log_info("a rank of this host cannot read the others' memory: collectives of larger "
                    "blocks are copied through the shared segment, or sent");
    }
    return worst == BR_SHM_READ;
}
