/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives with a list of tensors, one a rank. Where the list is views of one buffer, one behind
 * the other, braid works on that; else on a buffer from the group's store, with a copy before or
 * after. The tensors of a list may differ in size; what c10d's other backends refuse is allowed.
 */
#include "group.hpp"
#include "convert.hpp"

namespace braid_torch
{

namespace
{

/* A list as one buffer. */
struct Joined {
    at::Tensor buffer; /* one that was made for all elements, or the first tensor of the list */
    void *data = nullptr;
    braid_type type = BRAID_UINT8;
    std::vector<size_t> counts; /* by rank, in elements of `type` */
    bool even = true;
    bool made = false;
    Tensors list;

    void fill() const
    {
        if (made)
            for_each(
                [](const at::Tensor &block, const at::Tensor &tensor) { block.copy_(tensor); });
    }
    void spread() const
    {
        for_each([](const at::Tensor &block, const at::Tensor &tensor) { tensor.copy_(block); });
    }

  private:
    /* Each tensor with its block of the buffer, both as braid has the elements: in memory's order,
     * or in that of the indices where a tensor has gaps. */
    template <class Copy> void for_each(Copy copy) const
    {
        const at::NoGradGuard no_gradient;
        int64_t at = 0;

        for (const at::Tensor &tensor : list) {
            const at::Tensor block = buffer.narrow(0, at, tensor.numel());
            if (has_no_gaps(tensor))
                copy(block, line(tensor));
            else
                copy(block.view(tensor.sizes()), tensor);
            at += tensor.numel();
        }
    }
};

/* Their elements lie one behind the other in one storage. */
bool adjoin(const Tensors &list)
{
    for (size_t i = 0; i < list.size(); i++)
        if (!has_no_gaps(list[i]) ||
            (i > 0 && (list[i].storage().data() != list[0].storage().data() ||
                       static_cast<char *>(list[i].data_ptr()) !=
                           static_cast<char *>(list[i - 1].data_ptr()) + list[i - 1].nbytes())))
            return false;
    return true;
}

Joined join(const char *name, const Tensors &list, at::ScalarType type, Link &link)
{
    Joined joined;
    int64_t total = 0;

    check_tensors(name, list, check_kind);
    check_types(name, list, type);
    joined.list = list;
    for (const at::Tensor &tensor : list) {
        joined.counts.push_back(contents(tensor).count);
        joined.even = joined.even && joined.counts.back() == joined.counts[0];
        total += tensor.numel();
    }
    joined.made = !adjoin(list);
    joined.buffer = joined.made ? link.scratch(total, list[0].options()) : list[0];
    joined.data = joined.buffer.data_ptr();
    joined.type = contents(joined.buffer).type;
    return joined;
}

/* Of a list's tensors that of this rank has the size of its own, which it goes to or comes from. */
void check_own(const char *name, const Joined &joined, int rank, const at::Tensor &own)
{
    const size_t at = static_cast<size_t>(rank);

    if (joined.counts[at] != contents(own).count)
        refuse(name, "invalid tensor size: this rank's tensor of the list has " +
                         c10::str(joined.list[at].sizes()) + ", its own " + c10::str(own.sizes()));
}

void check_one_list(const char *name, const std::vector<Tensors> &lists, int size)
{
    if (lists.size() != 1 || lists[0].size() != static_cast<size_t>(size))
        refuse(name, "requires a single-element list containing a list with " +
                         std::to_string(size) + " tensors.");
}

} // namespace

/* ---- all ranks have the list ----------------------------------------------------------------- */

static void add_allgather_list(Call &call, const Tensors &outputs, const at::Tensor &input,
                               int rank, Link &link)
{
    const Joined to = join("allgather", outputs, input.scalar_type(), link);
    const Span from = contents(input);

    check_own("allgather", to, rank, input);
    call.kept.push_back(to.buffer);
    if (to.even)
        call.add<braid_allgather, braid_allgather_on_stream>(from.data, to.data, from.count,
                                                             from.type);
    else
        call.add<braid_allgatherv, braid_allgatherv_on_stream>(from.data, from.count, to.data,
                                                               to.counts, PACKED, from.type);
    if (to.made)
        call.then = [to, before = std::move(call.then)] {
            if (before)
                before();
            to.spread();
        };
}

WorkPtr Group::allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                         const c10d::AllgatherOptions &options)
{
    const at::Tensor &input = only("allgather", inputs);
    Call call("all_gather", OpType::ALLGATHER);

    check_one_list("allgather", outputs, size_);
    call.device = input.device();
    call.inputs = inputs;
    call.outputs = outputs;
    add_allgather_list(call, outputs[0], input, rank_, *link_);
    return run(std::move(call), "braid:all_gather", options);
}

/* outputs[r][i]: inputs[i] of rank r. */
WorkPtr Group::allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                   const c10d::AllgatherOptions &options)
{
    Call call("all_gather", OpType::ALLGATHER_COALESCED);

    check_tensors("allgather_coalesced", inputs);
    if (outputs.size() != static_cast<size_t>(size_))
        refuse("allgather_coalesced", "output lists should be equal to world size");
    for (const Tensors &list : outputs)
        if (list.size() != inputs.size())
            refuse("allgather_coalesced", "invalid output size: (expected length " +
                                              std::to_string(inputs.size()) + ", got " +
                                              std::to_string(list.size()) + ")");
    call.device = inputs[0].device();
    call.inputs = inputs;
    call.outputs = outputs;
    for (size_t i = 0; i < inputs.size(); i++) {
        Tensors ranks;
        for (const Tensors &list : outputs)
            ranks.push_back(list[i]);
        add_allgather_list(call, ranks, inputs[i], rank_, *link_);
    }
    return run(std::move(call), "braid:all_gather", options);
}

WorkPtr Group::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                              const c10d::ReduceScatterOptions &options)
{
    const at::Tensor &output = only("reduce_scatter", outputs);
    Call call("reduce_scatter", OpType::REDUCE_SCATTER);

    check_one_list("reduce_scatter", inputs, size_);
    const Joined from = join("reduce_scatter", inputs[0], output.scalar_type(), *link_);
    const Span to = values(output);
    const braid_reduction reduction = reduction_of(options.reduceOp, output.scalar_type());
    check_own("reduce_scatter", from, rank_, output);
    from.fill();
    call.device = output.device();
    call.inputs = inputs[0];
    call.outputs = {outputs};
    call.kept = {from.buffer};
    if (from.even)
        call.add<braid_reduce_scatter, braid_reduce_scatter_on_stream>(from.data, to.data, to.count,
                                                                       to.type, reduction);
    else
        call.add<braid_reduce_scatterv, braid_reduce_scatterv_on_stream>(
            from.data, from.counts, PACKED, to.data, to.type, reduction);
    return run(std::move(call), "braid:reduce_scatter", options);
}

WorkPtr Group::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options)
{
    Call call("all_to_all", OpType::ALLTOALL);

    for (const Tensors *list : {&inputs, &outputs})
        if (list->size() != static_cast<size_t>(size_))
            refuse("alltoall", "tensor list size " + std::to_string(list->size()) +
                                   " does not match world size " + std::to_string(size_));
    const Joined from = join("alltoall", inputs, inputs[0].scalar_type(), *link_);
    const Joined to = join("alltoall", outputs, inputs[0].scalar_type(), *link_);
    from.fill();
    call.device = inputs[0].device();
    call.inputs = inputs;
    call.outputs = {outputs};
    call.kept = {from.buffer, to.buffer};
    call.add<braid_alltoallv, braid_alltoallv_on_stream>(from.data, from.counts, PACKED, to.data,
                                                         to.counts, PACKED, to.type);
    if (to.made)
        call.then = [to] { to.spread(); };
    return run(std::move(call), "braid:all_to_all", options);
}

/* ---- the root has the list ------------------------------------------------------------------- */

/* Always the vector form: only the root knows whether all sizes are equal. */
WorkPtr Group::gather(std::vector<Tensors> &outputs, Tensors &inputs,
                      const c10d::GatherOptions &options)
{
    const at::Tensor &input = only("gather", inputs);
    const Span from = contents(input);
    const int to_rank = root("gather", options.rootRank);
    Call call("gather", OpType::GATHER);
    Joined to;

    if (rank_ == to_rank) {
        check_one_list("gather", outputs, size_);
        to = join("gather", outputs[0], input.scalar_type(), *link_);
        check_own("gather", to, rank_, input);
        call.kept = {to.buffer};
        if (to.made)
            call.then = [to] { to.spread(); };
    } else if (!outputs.empty()) {
        refuse("gather", "requires empty output on non-root");
    }
    call.device = input.device();
    call.inputs = inputs;
    call.outputs = outputs;
    call.add<braid_gatherv, braid_gatherv_on_stream>(from.data, from.count, to.data, to.counts,
                                                     PACKED, from.type, to_rank);
    return run(std::move(call), "braid:gather", options);
}

WorkPtr Group::scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                       const c10d::ScatterOptions &options)
{
    const at::Tensor &output = only("scatter", outputs);
    const Span to = contents(output);
    const int from_rank = root("scatter", options.rootRank);
    Call call("scatter", OpType::SCATTER);
    Joined from;

    if (rank_ == from_rank) {
        check_one_list("scatter", inputs, size_);
        from = join("scatter", inputs[0], output.scalar_type(), *link_);
        check_own("scatter", from, rank_, output);
        from.fill();
        call.inputs = inputs[0];
        call.kept = {from.buffer};
    } else if (!inputs.empty()) {
        refuse("scatter", "requires empty input on non-root");
    }
    call.device = output.device();
    call.outputs = {outputs};
    call.add<braid_scatterv, braid_scatterv_on_stream>(from.data, from.counts, PACKED, to.data,
                                                       to.count, to.type, from_rank);
    return run(std::move(call), "braid:scatter", options);
}

} // namespace braid_torch
