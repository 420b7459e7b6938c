/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sum of sparse tensors (gradients of embeddings), as gloo does it: all ranks' indices and
 * values are gathered, and each rank adds them up. How many each rank has is gathered first, and
 * waited for in the call, with the group's lock held: nothing else of this group comes between on
 * any rank.
 */
#include "group.hpp"
#include "convert.hpp"

namespace braid_torch
{

namespace
{

/* What the ranks tell each other of their tensors: elements, dimensions, sizes. */
struct Shape {
    static constexpr size_t DIMENSIONS = 16;
    int64_t elements = 0, sparse = 0, dense = 0, sizes[DIMENSIONS] = {};
};

Shape shape_of(const at::Tensor &tensor)
{
    Shape shape;

    if (static_cast<size_t>(tensor.dim()) > Shape::DIMENSIONS)
        refuse("allreduce", "sparse tensors have at most 16 dimensions");
    shape.elements = tensor._nnz();
    shape.sparse = tensor.sparse_dim();
    shape.dense = tensor.dense_dim();
    std::copy(tensor.sizes().begin(), tensor.sizes().end(), shape.sizes);
    return shape;
}

} // namespace

WorkPtr Group::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    if (tensors.size() != 1)
        refuse("allreduce", "requires a single-element tensor list");
    if (options.reduceOp != c10d::ReduceOp::SUM)
        refuse("allreduce",
               "unsupported reduction operation (allreduce of sparse tensors only works "
               "with ReduceOp.SUM)");
    if (!tensors[0].is_cpu())
        refuse("allreduce", "sparse tensors must be on the CPU");
    std::lock_guard<std::mutex> guard(order_);
    const at::Tensor mine = tensors[0].coalesce();
    const Shape shape = shape_of(mine);
    /* The operation holds what it reads and writes: the wait for it may be interrupted. */
    const auto sent = std::make_shared<const Shape>(shape);
    const auto shapes = std::make_shared<std::vector<Shape>>(static_cast<size_t>(size_));
    Call first("sparse all_reduce", OpType::UNKNOWN);
    Call call("sparse all_reduce", OpType::_ALLREDUCE_SPARSE);

    complete(first, options.timeout);
    first.parts.push_back([sent, shapes](const Target &to) {
        return braid_allgather(to.comm, sent.get(), shapes->data(), sizeof *sent, BRAID_UINT8,
                               to.options, to.op);
    });
    run_ordered(std::move(first), nullptr)->wait();

    /* rows of indices, one an element, and of values */
    const int64_t row = mine.sparse_dim();
    const at::Tensor indices = mine._indices().t().contiguous();
    const at::Tensor values_of = mine._values().contiguous();
    std::vector<size_t> index_counts, value_counts;
    int64_t total = 0, wide = 1; /* values of an element */
    for (int64_t i = row; i < mine.dim(); i++)
        wide *= mine.size(i);
    for (const Shape &other : *shapes) {
        if (other.sparse != shape.sparse || other.dense != shape.dense ||
            !std::equal(other.sizes, other.sizes + Shape::DIMENSIONS, shape.sizes))
            refuse("allreduce", "the ranks' sparse tensors differ in shape");
        index_counts.push_back(static_cast<size_t>(other.elements * row));
        value_counts.push_back(static_cast<size_t>(other.elements * wide));
        total += other.elements;
    }
    const at::Tensor all_indices = at::empty({total, row}, indices.options());
    std::vector<int64_t> sizes = values_of.sizes().vec();
    sizes[0] = total;
    const at::Tensor all_values = at::empty(sizes, values_of.options());
    const Span from = contents(values_of), to = contents(all_values);
    complete(call, options.timeout);
    call.outputs = {tensors};
    call.kept = {indices, values_of};
    call.add<braid_allgatherv, braid_allgatherv_on_stream>(
        indices.data_ptr(), static_cast<size_t>(indices.numel()), all_indices.data_ptr(),
        index_counts, PACKED, BRAID_INT64);
    call.add<braid_allgatherv, braid_allgatherv_on_stream>(from.data, from.count, to.data,
                                                           value_counts, PACKED, from.type);
    call.then = [tensor = tensors[0], all_indices, all_values] {
        const at::NoGradGuard no_gradient;
        tensor.copy_(at::sparse_coo_tensor(all_indices.t(), all_values, tensor.sizes(),
                                           all_values.options().layout(at::kSparse))
                         .coalesce());
    };
    return run_ordered(std::move(call), "braid:sparse_all_reduce");
}

} // namespace braid_torch
