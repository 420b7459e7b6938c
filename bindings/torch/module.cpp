/* SPDX-License-Identifier: BSD-3-Clause */
/* braid.torch._native: what braid/torch/__init__.py registers with torch.distributed. */
#include <pthread.h>
#include <utility>

#include <torch/csrc/utils/pybind.h>
#include <pybind11/chrono.h>

#include "group.hpp"

namespace py = pybind11;

namespace braid_torch
{
namespace
{

/* given: may be none; it is copied. */
c10::intrusive_ptr<c10d::Backend> create(const c10::intrusive_ptr<c10d::Store> &store, int rank,
                                         int size, std::chrono::milliseconds timeout,
                                         const c10::intrusive_ptr<GroupOptions> &given)
{
    auto options =
        given ? c10::make_intrusive<GroupOptions>(*given) : c10::make_intrusive<GroupOptions>();

    options->timeout = timeout;
    return c10::make_intrusive<Group>(store, rank, size, std::move(options));
}

/* The communicator of a group, which does not end before this: a program's braid.Comm holds it. */
class Hold
{
  public:
    explicit Hold(std::shared_ptr<Link> link) : link_(std::move(link))
    {
        link_->hold();
    }
    ~Hold()
    {
        release();
    }
    Hold(const Hold &) = delete;
    Hold &operator=(const Hold &) = delete;

    uintptr_t address() const
    {
        return reinterpret_cast<uintptr_t>(link_->comm());
    }
    void release()
    {
        if (!released_.exchange(true))
            link_->release();
    }

  private:
    const std::shared_ptr<Link> link_;
    std::atomic<bool> released_{false};
};

std::unique_ptr<Hold> hold(const c10::intrusive_ptr<c10d::Backend> &backend)
{
    const Group *group = dynamic_cast<const Group *>(backend.get());

    TORCH_CHECK_VALUE(group, "this process group's backend is ", backend->getBackendName(),
                      ", not braid");
    return std::make_unique<Hold>(group->link());
}

} // namespace
} // namespace braid_torch

PYBIND11_MODULE(_native, m)
{
    using namespace braid_torch;

    py::module_::import("torch.distributed"); /* where c10d's classes are bound */
    py::class_<Hold>(m, "Hold")
        .def_property_readonly("address", &Hold::address)
        .def("release", &Hold::release);
    py::class_<GroupOptions, c10d::Backend::Options, c10::intrusive_ptr<GroupOptions>>(
        m, "Options",
        "pg_options of init_process_group() and new_group(): what all operations of a group have. "
        "Their timeout is an argument of these functions themselves.")
        .def(py::init<>())
        .def_readwrite("priority", &GroupOptions::priority,
                       "larger is more urgent; frames of a more urgent operation overtake")
        .def_readwrite(
            "algorithm", &GroupOptions::algorithm,
            "of all_reduce, reduce, broadcast, all_gather and reduce_scatter, as `braid "
            "info` lists them; one that is not of a collective is an error of that call; "
            "empty: braid chooses");
    m.def("create", &create, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"),
          py::arg("options"), py::call_guard<py::gil_scoped_release>());
    m.def(
        "set_priority", [](int32_t priority) { return std::exchange(Group::priority, priority); },
        py::arg("priority"));
    m.def("hold", &hold, py::arg("backend"));
    m.def(
        "close_all", [](std::chrono::milliseconds grace) { Link::close_all(grace); },
        py::arg("grace"), py::call_guard<py::gil_scoped_release>());
    pthread_atfork(nullptr, nullptr, Link::forget_all);
}
