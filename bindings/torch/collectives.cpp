/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on one tensor, or on pairs of an input and an output. */
#include "group.hpp"
#include "convert.hpp"

namespace braid_torch
{

int Group::root(const char *call, int64_t rank) const
{
    if (rank < 0 || rank >= size_)
        refuse(call, "invalid root rank: " + std::to_string(rank));
    return static_cast<int>(rank);
}

/* What braid works on in place of the one tensor: the tensor itself, or, where that has gaps or
 * another order of elements (a slice, a transpose), a copy that is put back behind the operation.
 */
static Tensors without_gaps(Call &call, const Tensors &tensors)
{
    if (tensors.size() != 1 || tensors[0].layout() != at::kStrided || has_no_gaps(tensors[0]))
        return tensors;
    const at::Tensor mine = tensors[0].detach(), copy = mine.contiguous();
    call.kept.push_back(copy);
    call.then = [mine, copy] { mine.copy_(copy); };
    return {copy};
}

WorkPtr Group::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options)
{
    Call call("broadcast", OpType::BROADCAST);
    Tensors dense = without_gaps(call, tensors);
    const Span span = contents(only("broadcast", dense));

    call.device = tensors[0].device();
    call.inputs = tensors;
    call.outputs = {tensors};
    call.add<braid_broadcast, braid_broadcast_on_stream>(
        span.data, span.data, span.count, span.type, root("broadcast", options.rootRank));
    return run(std::move(call), "braid:broadcast", options);
}

static void add_allreduce(Call &call, const at::Tensor &tensor, const c10d::ReduceOp &op)
{
    const Span span = values(tensor);

    call.add<braid_allreduce, braid_allreduce_on_stream>(
        span.data, span.data, span.count, span.type, reduction_of(op, tensor.scalar_type()));
}

WorkPtr Group::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    if (tensors.size() == 1 && tensors[0].layout() == at::kSparse)
        return allreduce_sparse(tensors, options);
    Call call("all_reduce", OpType::ALLREDUCE);
    Tensors dense = without_gaps(call, tensors);
    const at::Tensor &tensor = only("allreduce", dense);

    call.device = tensor.device();
    call.inputs = tensors;
    call.outputs = {tensors};
    add_allreduce(call, tensor, options.reduceOp);
    return run(std::move(call), "braid:all_reduce", options);
}

WorkPtr Group::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options)
{
    Call call("all_reduce", OpType::ALLREDUCE_COALESCED);

    check_tensors("allreduce_coalesced", tensors);
    check_types("allreduce_coalesced", tensors, tensors[0].scalar_type());
    call.device = tensors[0].device();
    call.inputs = tensors;
    call.outputs = {tensors};
    for (const at::Tensor &tensor : tensors)
        add_allreduce(call, tensor, options.reduceOp);
    return run(std::move(call), "braid:all_reduce", options);
}

WorkPtr Group::reduce(Tensors &tensors, const c10d::ReduceOptions &options)
{
    Call call("reduce", OpType::REDUCE);
    Tensors dense = without_gaps(call, tensors);
    const at::Tensor &tensor = only("reduce", dense);
    const Span span = values(tensor);
    const int to = root("reduce", options.rootRank);

    call.device = tensor.device();
    call.inputs = tensors;
    call.outputs = {tensors};
    call.add<braid_reduce, braid_reduce_on_stream>(
        span.data, rank_ == to ? span.data : nullptr, span.count, span.type,
        reduction_of(options.reduceOp, tensor.scalar_type()), to);
    return run(std::move(call), "braid:reduce", options);
}

WorkPtr Group::barrier(const c10d::BarrierOptions &options)
{
    std::lock_guard<std::mutex> guard(order_);
    Call call("barrier", OpType::BARRIER);

    /* As with gloo, the collectives that this rank has called before have ended, too. Messages need
     * not: their other end may come behind the barrier. */
    const auto before = link_->next_epoch();
    if (!before.empty())
        call.then = [before] {
            for (const auto &epoch : before)
                while (epoch->load(std::memory_order_acquire) > 0)
                    std::this_thread::sleep_for(std::chrono::microseconds(20));
        };
    call.add<braid_barrier, braid_barrier_on_stream>();
    call.blocks = is_waited_for(options, 0);
    complete(call, options.timeout);
    return run_ordered(std::move(call), "braid:barrier");
}

/* ---- an input and an output of one buffer each ----------------------------------------------- */

static void check_pair(const char *name, const at::Tensor &small, const at::Tensor &large, int size,
                       const char *sizes)
{
    check_tensors(name, {small, large});
    TORCH_CHECK(large.numel() == small.numel() * size, sizes);
    check_types(name, {large}, small.scalar_type());
}

static void add_allgather(Call &call, const at::Tensor &output, const at::Tensor &input, int size)
{
    check_pair("all_gather_single", input, output, size,
               "output tensor size must be equal to world_size times input tensor size");
    const Span to = contents(output), from = contents(input);
    call.add<braid_allgather, braid_allgather_on_stream>(from.data, to.data, from.count, from.type);
}

WorkPtr Group::_allgather_base(at::Tensor &output, at::Tensor &input,
                               const c10d::AllgatherOptions &options)
{
    Call call("all_gather", OpType::_ALLGATHER_BASE);

    call.device = input.device();
    call.inputs = {input};
    call.outputs = {{output}};
    add_allgather(call, output, input, size_);
    return run(std::move(call), "braid:_all_gather_base", options);
}

/* A call of many pairs. title: of the function that c10d calls. */
static Call of_pairs(const char *name, const char *title, const Tensors &outputs,
                     const Tensors &inputs)
{
    Call call(name, OpType::COALESCED);

    check_tensors(title, inputs);
    if (outputs.size() != inputs.size())
        refuse(title, "requires input/output tensor lists to have the same length");
    call.device = inputs[0].device();
    call.inputs = inputs;
    call.outputs = {outputs};
    return call;
}

WorkPtr Group::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                               const c10d::AllgatherOptions &options)
{
    Call call = of_pairs("all_gather", "allgather_into_tensor_coalesced", outputs, inputs);

    for (size_t i = 0; i < inputs.size(); i++)
        add_allgather(call, outputs[i], inputs[i], size_);
    return run(std::move(call), "braid:all_gather_into_tensor_coalesced", options);
}

static void add_reduce_scatter(Call &call, const at::Tensor &output, const at::Tensor &input,
                               const c10d::ReduceOp &op, int size)
{
    check_pair("reduce_scatter_single", output, input, size,
               "input tensor must be the same size as output size times world size");
    const Span to = values(output), from = values(input);
    call.add<braid_reduce_scatter, braid_reduce_scatter_on_stream>(
        from.data, to.data, to.count, to.type, reduction_of(op, input.scalar_type()));
}

WorkPtr Group::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                    const c10d::ReduceScatterOptions &options)
{
    Call call("reduce_scatter", OpType::_REDUCE_SCATTER_BASE);

    call.device = input.device();
    call.inputs = {input};
    call.outputs = {{output}};
    add_reduce_scatter(call, output, input, options.reduceOp, size_);
    return run(std::move(call), "braid:_reduce_scatter_base", options);
}

WorkPtr Group::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                               const c10d::ReduceScatterOptions &options)
{
    Call call = of_pairs("reduce_scatter", "reduce_scatter_tensor_coalesced", outputs, inputs);

    for (size_t i = 0; i < inputs.size(); i++)
        add_reduce_scatter(call, outputs[i], inputs[i], options.reduceOp, size_);
    return run(std::move(call), "braid:reduce_scatter_tensor_coalesced", options);
}

/* The elements of each rank's rows: `rows` says how many those are, or nothing: as many of each. */
static std::vector<size_t> counts_of(const std::vector<int64_t> &rows, const at::Tensor &tensor,
                                     int size, size_t elements)
{
    const size_t ranks = static_cast<size_t>(size);

    if (rows.empty()) {
        TORCH_CHECK(tensor.dim() > 0 && tensor.size(0) % size == 0,
                    "Tensor's dim 0 does not divide equally across group size");
        return std::vector<size_t>(ranks, elements / ranks);
    }
    TORCH_CHECK(rows.size() == ranks, "Number of tensor splits not equal to group size");
    int64_t sum = 0;
    for (const int64_t n : rows) {
        TORCH_CHECK(n >= 0, "Split sizes must be non-negative");
        sum += n;
    }
    TORCH_CHECK(tensor.dim() > 0 && sum == tensor.size(0),
                "Split sizes doesn't match total dim 0 size");
    std::vector<size_t> counts;
    for (const int64_t n : rows)
        counts.push_back(sum ? static_cast<size_t>(n) * (elements / static_cast<size_t>(sum)) : 0);
    return counts;
}

/* Always the vector form: a rank that gives splits and one that leaves them out, as its own are
 * equal, are in one all-to-all. */
WorkPtr Group::alltoall_base(at::Tensor &output, at::Tensor &input,
                             std::vector<int64_t> &output_rows, std::vector<int64_t> &input_rows,
                             const c10d::AllToAllOptions &options)
{
    Call call("all_to_all", OpType::ALLTOALL_BASE);

    check_tensors("alltoall_base", {output, input});
    check_types("alltoall_base", {output}, input.scalar_type());
    const Span to = contents(output), from = contents(input);
    call.device = input.device();
    call.inputs = {input};
    call.outputs = {{output}};
    call.add<braid_alltoallv, braid_alltoallv_on_stream>(
        from.data, counts_of(input_rows, input, size_, from.count), PACKED, to.data,
        counts_of(output_rows, output, size_, to.count), PACKED, to.type);
    return run(std::move(call), "braid:all_to_all", options);
}

WorkPtr Group::gather_into_tensor(at::Tensor &output, at::Tensor &input,
                                  const c10d::GatherOptions &options)
{
    std::vector<Tensors> outputs;
    Tensors inputs = {input};

    if (rank_ == options.rootRank) {
        check_pair("gather_single", input, output, size_,
                   "output tensor size must be equal to world_size times input tensor size");
        outputs.push_back(line(output).chunk(size_));
    }
    return gather(outputs, inputs, options);
}

} // namespace braid_torch
