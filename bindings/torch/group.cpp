/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a process group, and how its calls are submitted. */
#include "group.hpp"
#include "convert.hpp"

namespace braid_torch
{

Group::Group(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
             c10::intrusive_ptr<GroupOptions> options)
    : Backend(rank, size), options_(std::move(options)),
      link_(Link::join(store, rank, size, options_->timeout))
{
    init();
}

Group::~Group()
{
    link_->close();
}

c10::intrusive_ptr<c10d::Backend::Options> Group::getBackendOptions()
{
    return options_;
}

void Group::setSequenceNumberForGroup()
{
    /* they begin with 0 on all ranks */
}

/* For `braid top`. torch says a group's name only behind its constructor. */
void Group::say_name()
{
    const std::string &description = getGroupDesc();
    const bool described = !description.empty() && description != "undefined";
    const Link::Use use(*link_);

    named_ = true;
    braid_job_name(link_->comm(), (described ? description : "group " + getGroupUid()).c_str());
}

uint64_t Group::getSequenceNumberForGroup()
{
    std::lock_guard<std::mutex> guard(order_);
    return sequence_;
}

void Group::setTimeout(std::chrono::milliseconds timeout)
{
    std::lock_guard<std::mutex> guard(order_);
    options_->timeout = timeout;
}

void Group::abort()
{
    link_->abort("the process group was aborted");
}

void Group::shutdown()
{
    link_->close();
}

bool Group::supportsTensorAlloc(c10::DeviceIndex device)
{
    return device < 0; /* the CPU, which has no index */
}

at::Tensor Group::allocateTensor(long count, at::TensorOptions options)
{
    return link_->allocate(count, options);
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
bool Group::supportsSplitting() const
{
    return true;
}

c10::intrusive_ptr<c10d::Backend>
Group::split(const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
             const c10::intrusive_ptr<c10d::Backend::Options> &options)
{
    const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
    auto given = c10::dynamic_intrusive_pointer_cast<GroupOptions>(options);

    if (mine == ranks.end())
        return nullptr;
    if (!given) {
        given = c10::make_intrusive<GroupOptions>(*options_);
        if (options)
            given->timeout = options->timeout;
    }
    return c10::make_intrusive<Group>(store->clone(), static_cast<int>(mine - ranks.begin()),
                                      static_cast<int>(ranks.size()), std::move(given));
}

c10d::ErrorType Group::getError()
{
    const Link::Use use(*link_);

    switch (braid_comm_error(link_->comm())) {
    case 0:
        return c10d::ErrorType::SUCCESS;
    case -ETIMEDOUT:
        return c10d::ErrorType::TIMEOUT;
    case -ECONNRESET:
        return c10d::ErrorType::REMOTE_ERROR;
    default:
        return c10d::ErrorType::COMM_ERROR;
    }
}
#endif

/* ---- submission ------------------------------------------------------------------------------ */

thread_local int32_t Group::priority = 0;

/* The collectives that general algorithms are of (doc/collectives.md); others have one or two. */
static bool has_algorithms(const std::string &call)
{
    for (const char *name : {"all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"})
        if (call == name)
            return true;
    return false;
}

void Group::complete(Call &call, std::chrono::milliseconds timeout) const
{
    call.timeout = timeout == c10d::kUnsetTimeout ? options_->timeout : timeout;
    call.priority = priority ? priority : options_->priority;
    if (!options_->algorithm.empty() && has_algorithms(call.name))
        call.algorithm = options_->algorithm.c_str();
}

WorkPtr Group::run(Call call, const char *title, std::chrono::milliseconds timeout)
{
    std::lock_guard<std::mutex> guard(order_);

    complete(call, timeout);
    if (coalescing_ == std::this_thread::get_id()) {
        recorded_.push_back(std::move(call));
        return c10::make_intrusive<Recorded>(rank_, recorded_.back().type);
    }
    return run_ordered(std::move(call), title);
}

WorkPtr Group::run_ordered(Call call, const char *title)
{
    if (!call.messages)
        sequence_++;
    if (!named_)
        say_name();
    auto work = c10::make_intrusive<Work>(link_, std::move(call), title);
    work->operation()->submit();
    return work;
}

bool Group::supportsCoalescing() const
{
    return true;
}

void Group::startCoalescing()
{
    std::lock_guard<std::mutex> guard(order_);
    const std::thread::id self = std::this_thread::get_id();

    /* where an exception left the block in between, what was recorded there is forgotten */
    TORCH_CHECK(coalescing_ == std::thread::id() || coalescing_ == self,
                "braid: another thread is between startCoalescing() and endCoalescing()");
    recorded_.clear();
    coalescing_ = self;
}

/* Submits one of several operations that differ in this. */
static std::function<int(const Target &)> by_algorithm(std::function<int(const Target &)> part,
                                                       const char *algorithm)
{
    return [part = std::move(part), algorithm](Target to) {
        braid_options options = *to.options;

        options.algorithm = algorithm;
        to.options = &options;
        return part(to);
    };
}

WorkPtr Group::endCoalescing()
{
    std::lock_guard<std::mutex> guard(order_);
    Call all("coalesced", OpType::COALESCED);
    std::vector<std::function<void()>> following;

    TORCH_CHECK(coalescing_ == std::this_thread::get_id(),
                "braid: endCoalescing() without startCoalescing() in this thread");
    coalescing_ = std::thread::id();
    std::vector<Call> calls;
    calls.swap(recorded_);
    complete(all, c10d::kUnsetTimeout);
    all.messages = !calls.empty();
    for (Call &call : calls) {
        if (&call == &calls.front())
            all.device = call.device;
        TORCH_CHECK(call.device == all.device,
                    "braid: coalesced calls have tensors of different devices");
        all.streams = all.streams && call.streams;
        all.messages = all.messages && call.messages;
        all.timeout = std::max(all.timeout, call.timeout);
        all.priority = std::max(all.priority, call.priority);
        all.inputs.insert(all.inputs.end(), call.inputs.begin(), call.inputs.end());
        all.kept.insert(all.kept.end(), call.kept.begin(), call.kept.end());
        for (const Tensors &outputs : call.outputs)
            all.kept.insert(all.kept.end(), outputs.begin(), outputs.end());
        for (auto &part : call.parts)
            all.parts.push_back(call.algorithm ? by_algorithm(std::move(part), call.algorithm)
                                               : std::move(part));
        if (call.then)
            following.push_back(std::move(call.then));
    }
    if (!following.empty())
        all.then = [following] {
            for (const auto &then : following)
                then();
        };
    return run_ordered(std::move(all), "braid:coalesced");
}

} // namespace braid_torch
