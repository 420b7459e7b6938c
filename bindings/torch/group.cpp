/* SPDX-License-Identifier: BSD-3-Clause */
#include "group.hpp"
#include "convert.hpp"

namespace braid_torch
{

Group::Group(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
             std::chrono::milliseconds timeout)
    : Backend(rank, size), link_(Link::join(store, rank, size, timeout)), timeout_(timeout)
{
    init();
}

Group::~Group()
{
    link_->close();
}

/* ---- submission ------------------------------------------------------------------------------ */

thread_local int32_t Group::priority = 0;

WorkPtr Group::run(Call call, const char *title, std::chrono::milliseconds timeout)
{
    std::lock_guard<std::mutex> guard(order_);

    call.timeout = timeout == c10d::kUnsetTimeout ? timeout_ : timeout;
    call.priority = priority;
    if (!c10d::isP2POp(call.type))
        sequence_++;
    auto work = c10::make_intrusive<Work>(link_, std::move(call), title, sequence_);
    work->operation()->submit();
    return work;
}

uint64_t Group::getSequenceNumberForGroup()
{
    std::lock_guard<std::mutex> guard(order_);
    return sequence_;
}

void Group::setTimeout(std::chrono::milliseconds timeout)
{
    std::lock_guard<std::mutex> guard(order_);
    timeout_ = timeout;
}

void Group::abort()
{
    link_->abort("the process group was aborted");
}

void Group::shutdown()
{
    link_->close();
}

/* ---- collectives ----------------------------------------------------------------------------- */

WorkPtr Group::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options)
{
    const at::Tensor &tensor = only("broadcast", tensors);
    const Span span = contents(tensor);
    const int root = static_cast<int>(options.rootRank);
    Call call;

    if (root < 0 || root >= size_)
        refuse("broadcast", "invalid root rank: " + std::to_string(root));
    call.name = "broadcast";
    call.type = OpType::BROADCAST;
    call.inputs = tensors;
    call.outputs = {tensors};
    call.parts.push_back([=](braid_comm *comm, const braid_options *o, braid_op **op) {
        return braid_broadcast(comm, span.data, span.data, span.count, span.type, root, o, op);
    });
    return run(std::move(call), "braid:broadcast", options.timeout);
}

WorkPtr Group::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    const at::Tensor &tensor = only("allreduce", tensors);
    const Span span = values(tensor);
    const braid_reduction reduction = reduction_of(options.reduceOp, tensor.scalar_type());
    Call call;

    call.name = "all_reduce";
    call.type = OpType::ALLREDUCE;
    call.inputs = tensors;
    call.outputs = {tensors};
    call.parts.push_back([=](braid_comm *comm, const braid_options *o, braid_op **op) {
        return braid_allreduce(comm, span.data, span.data, span.count, span.type, reduction, o, op);
    });
    return run(std::move(call), "braid:all_reduce", options.timeout);
}

WorkPtr Group::_allgather_base(at::Tensor &output, at::Tensor &input,
                               const c10d::AllgatherOptions &options)
{
    Call call;

    check_tensors("_allgather_base", {output, input});
    TORCH_CHECK(output.numel() == input.numel() * size_,
                "Output tensor size must be equal to input tensor size times world size");
    TORCH_CHECK(output.scalar_type() == input.scalar_type(),
                "output tensor must have the same type as input tensor");
    const Span to = contents(output), from = contents(input);
    call.name = "all_gather";
    call.type = OpType::_ALLGATHER_BASE;
    call.inputs = {input};
    call.outputs = {{output}};
    call.parts.push_back([=](braid_comm *comm, const braid_options *o, braid_op **op) {
        return braid_allgather(comm, from.data, to.data, from.count, from.type, o, op);
    });
    return run(std::move(call), "braid:_all_gather_base", options.timeout);
}

WorkPtr Group::allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                         const c10d::AllgatherOptions &options)
{
    const at::Tensor &input = only("allgather", inputs);
    Call call;

    if (outputs.size() != 1 || outputs[0].size() != static_cast<size_t>(size_))
        refuse("allgather", "requires one list of as many outputs as there are ranks");
    check_tensors("allgather", outputs[0]);
    check_alike("allgather", outputs[0], input);
    const at::Tensor flat = at::empty({size_ * input.numel()}, input.options());
    const Span to = contents(flat), from = contents(input);
    call.name = "all_gather";
    call.type = OpType::ALLGATHER;
    call.inputs = inputs;
    call.outputs = outputs;
    call.kept = {flat};
    call.parts.push_back([=](braid_comm *comm, const braid_options *o, braid_op **op) {
        return braid_allgather(comm, from.data, to.data, from.count, from.type, o, op);
    });
    call.then = [flat, list = outputs[0]] {
        for (size_t i = 0; i < list.size(); i++)
            list[i].view(-1).copy_(flat.narrow(0, static_cast<int64_t>(i) * list[i].numel(), list[i].numel()));
    };
    return run(std::move(call), "braid:all_gather", options.timeout);
}

WorkPtr Group::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                    const c10d::ReduceScatterOptions &options)
{
    Call call;

    check_tensors("_reduce_scatter_base", {output, input});
    TORCH_CHECK(input.numel() == output.numel() * size_,
                "input tensor must be the same size as output size times world size");
    TORCH_CHECK(output.scalar_type() == input.scalar_type(),
                "input tensor must be the same type as the output tensor.");
    const Span to = values(output), from = values(input);
    const braid_reduction reduction = reduction_of(options.reduceOp, input.scalar_type());
    call.name = "reduce_scatter";
    call.type = OpType::_REDUCE_SCATTER_BASE;
    call.inputs = {input};
    call.outputs = {{output}};
    call.parts.push_back([=](braid_comm *comm, const braid_options *o, braid_op **op) {
        return braid_reduce_scatter(comm, from.data, to.data, to.count, to.type, reduction, o, op);
    });
    return run(std::move(call), "braid:_reduce_scatter_base", options.timeout);
}

WorkPtr Group::barrier(const c10d::BarrierOptions &options)
{
    Call call;

    call.name = "barrier";
    call.type = OpType::BARRIER;
    call.parts.push_back([](braid_comm *comm, const braid_options *o, braid_op **op) {
        return braid_barrier(comm, o, op);
    });
    return run(std::move(call), "braid:barrier", options.timeout);
}

/* ---- messages -------------------------------------------------------------------------------- */

WorkPtr Group::send(Tensors &tensors, int peer, int tag)
{
    const at::Tensor &tensor = only("send", tensors);
    Call call;

    call.name = "send";
    call.type = OpType::SEND;
    call.inputs = tensors;
    call.outputs = {tensors};
    call.parts.push_back([=, data = tensor.data_ptr(), bytes = tensor.nbytes()](
                             braid_comm *comm, const braid_options *o, braid_op **op) {
        struct braid_options tagged = *o;
        tagged.tag = static_cast<uint32_t>(tag);
        return braid_send(comm, data, bytes, peer, &tagged, op);
    });
    return run(std::move(call), "braid:send", c10d::kUnsetTimeout);
}

WorkPtr Group::recv(Tensors &tensors, int peer, int tag)
{
    const at::Tensor &tensor = only("recv", tensors);
    Call call;

    call.name = "recv";
    call.type = OpType::RECV;
    call.inputs = tensors;
    call.outputs = {tensors};
    call.parts.push_back([=, data = tensor.data_ptr(), bytes = tensor.nbytes()](
                             braid_comm *comm, const braid_options *o, braid_op **op) {
        struct braid_options tagged = *o;
        tagged.tag = static_cast<uint32_t>(tag);
        return braid_recv(comm, data, bytes, peer, &tagged, op);
    });
    return run(std::move(call), "braid:recv", c10d::kUnsetTimeout);
}

WorkPtr Group::recvAnysource(Tensors &tensors, int tag)
{
    const at::Tensor &tensor = only("recvAnysource", tensors);
    Call call;

    call.name = "recv";
    call.type = OpType::RECVANYSOURCE;
    call.inputs = tensors;
    call.outputs = {tensors};
    call.received = std::make_unique<braid_received>();
    call.received->struct_size = sizeof *call.received;
    call.parts.push_back([=, data = tensor.data_ptr(), bytes = tensor.nbytes(),
                          received = call.received.get()](
                             braid_comm *comm, const braid_options *o, braid_op **op) {
        struct braid_options tagged = *o;
        tagged.tag = static_cast<uint32_t>(tag);
        return braid_recv_any(comm, data, bytes, BRAID_ANY_SOURCE, &tagged, received, op);
    });
    return run(std::move(call), "braid:recvAnySource", c10d::kUnsetTimeout);
}

} // namespace braid_torch
