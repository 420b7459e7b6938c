/* SPDX-License-Identifier: BSD-3-Clause */
/* From torch's words to braid's: element types, reductions, and the checks of tensors, with the
 * words that gloo has for them. */
#pragma once

#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <braid/types.h>

namespace braid_torch
{

/* Elements of one call: `count` of `type` from `data` on. */
struct Span {
    void *data;
    size_t count;
    braid_type type;
};

/* Displacements of the vector forms: one block behind the other. */
constexpr const size_t *PACKED = nullptr;

/* braid's type of values that are combined; false: braid has none. */
inline bool find_type(at::ScalarType from, braid_type &type)
{
    switch (from) {
    case at::kFloat:
        type = BRAID_FLOAT32;
        break;
    case at::kDouble:
        type = BRAID_FLOAT64;
        break;
    case at::kHalf:
        type = BRAID_FLOAT16;
        break;
    case at::kBFloat16:
        type = BRAID_BFLOAT16;
        break;
    case at::kChar:
        type = BRAID_INT8;
        break;
    case at::kByte:
        type = BRAID_UINT8;
        break;
    case at::kShort:
        type = BRAID_INT16;
        break;
    case at::kInt:
        type = BRAID_INT32;
        break;
    case at::kLong:
        type = BRAID_INT64;
        break;
    case at::kBool:
        type = BRAID_BOOL;
        break;
    case at::kComplexFloat:
        type = BRAID_COMPLEX64;
        break;
    case at::kComplexDouble:
        type = BRAID_COMPLEX128;
        break;
    default: /* types that not every version of torch has have no constant in all of them */
        const std::string name = c10::toString(from);
        if (name == "UInt16")
            type = BRAID_UINT16;
        else if (name == "UInt32")
            type = BRAID_UINT32;
        else if (name == "UInt64")
            type = BRAID_UINT64;
        else if (name == "Float8_e4m3fn")
            type = BRAID_FLOAT8_E4M3;
        else if (name == "Float8_e5m2")
            type = BRAID_FLOAT8_E5M2;
        else
            return false;
    }
    return true;
}

/* The elements of a dense tensor that are combined. */
inline Span values(const at::Tensor &tensor)
{
    braid_type type;

    TORCH_CHECK(find_type(tensor.scalar_type(), type), "braid combines no values of type ",
                tensor.scalar_type());
    return {tensor.data_ptr(), static_cast<size_t>(tensor.numel()), type};
}

/* The elements of a dense tensor that are only moved: of any type, as bytes where braid does not
 * know it. */
inline Span contents(const at::Tensor &tensor)
{
    const size_t count = static_cast<size_t>(tensor.numel());
    braid_type type;

    if (find_type(tensor.scalar_type(), type))
        return {tensor.data_ptr(), count, type};
    return {tensor.data_ptr(), count * tensor.element_size(), BRAID_UINT8};
}

/* braid's reduction, for values of this type. */
inline braid_reduction reduction_of(const c10d::ReduceOp &op, at::ScalarType type)
{
    switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM:
        return BRAID_SUM;
    case c10d::ReduceOp::AVG:
        return BRAID_AVG;
    case c10d::ReduceOp::PRODUCT:
        return BRAID_PROD;
    case c10d::ReduceOp::MIN:
        return BRAID_MIN;
    case c10d::ReduceOp::MAX:
        return BRAID_MAX;
    case c10d::ReduceOp::BAND:
    case c10d::ReduceOp::BOR:
    case c10d::ReduceOp::BXOR:
        TORCH_CHECK_VALUE(c10::isIntegralType(type, true), "Cannot use ReduceOp.",
                          op == c10d::ReduceOp::BAND  ? "BAND"
                          : op == c10d::ReduceOp::BOR ? "BOR"
                                                      : "BXOR",
                          " with non-integral dtype");
        return op == c10d::ReduceOp::BAND  ? BRAID_BAND
               : op == c10d::ReduceOp::BOR ? BRAID_BOR
                                           : BRAID_BXOR;
    case c10d::ReduceOp::PREMUL_SUM:
        C10_THROW_ERROR(ValueError, "Cannot use ReduceOp.PREMUL_SUM with braid: multiply the "
                                    "tensor before the call, or use ReduceOp.AVG");
    default:
        C10_THROW_ERROR(ValueError, "Unhandled ReduceOp");
    }
}

/* A call is refused for its arguments, in the words of c10d's backends: ValueError in Python. */
[[noreturn]] inline void refuse(const char *call, const std::string &why)
{
    C10_THROW_ERROR(ValueError, std::string("ProcessGroupBraid::") + call + ": " + why);
}

/* It has all elements from the first to the last place in memory, and in an order that all ranks
 * with such a tensor have: braid can read and write it where it lies. */
inline bool has_no_gaps(const at::Tensor &tensor)
{
    return tensor.is_contiguous(tensor.suggest_memory_format());
}

/* One tensor that braid can read or write. */
inline void check_kind(const char *call, const at::Tensor &tensor)
{
    if (tensor.layout() != at::kStrided)
        refuse(call, "only supports dense tensors");
    if (!tensor.is_cpu() && !tensor.is_cuda())
        refuse(call, "only supports CPU and CUDA tensors, not those of " + tensor.device().str());
}

/* The same where it lies. */
inline void check_tensor(const char *call, const at::Tensor &tensor)
{
    check_kind(call, tensor);
    if (!has_no_gaps(tensor))
        refuse(call, "Tensors must be contiguous");
}

/* Tensors of one call: not empty, each as `check` demands, of one device. */
inline void check_tensors(const char *call, at::ArrayRef<at::Tensor> tensors,
                          void (*check)(const char *, const at::Tensor &) = check_tensor)
{
    if (tensors.empty())
        refuse(call, "requires non-empty tensor list");
    for (const at::Tensor &tensor : tensors) {
        check(call, tensor);
        if (tensor.device() != tensors[0].device())
            refuse(call, "tensors should be on the same device");
    }
}

/* The type that they all have. */
inline void check_types(const char *call, at::ArrayRef<at::Tensor> tensors, at::ScalarType type)
{
    for (const at::Tensor &tensor : tensors)
        if (tensor.scalar_type() != type)
            refuse(call, std::string("invalid tensor type (expected ") + c10::toString(type) +
                             ", got " + c10::toString(tensor.scalar_type()) + ")");
}

/* The one tensor of calls that c10d gives a list for the days of several GPUs a process. */
inline at::Tensor &only(const char *call, std::vector<at::Tensor> &tensors)
{
    if (tensors.size() != 1)
        refuse(call, "requires a single-element tensor list");
    check_tensor(call, tensors[0]);
    return tensors[0];
}

/* The memory of a dense tensor, in the order in which it lies there. */
inline at::Tensor line(const at::Tensor &tensor)
{
    return tensor.is_contiguous() ? tensor.view(-1) : tensor.as_strided({tensor.numel()}, {1});
}

} // namespace braid_torch
