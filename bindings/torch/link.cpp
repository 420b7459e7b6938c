/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.hpp"
#include "work.hpp"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include <algorithm>
#include <set>

#include <torch/csrc/utils/pybind.h>

namespace braid_torch
{

namespace
{

/* All links that have not left. Never destroyed: threads may end after main() has returned. */
struct Links {
    std::mutex lock;
    std::set<std::shared_ptr<Link>> all;
};
Links *links = new Links;

/* How many forks lie between the program's first process and this one: getpid() would be a system
 * call, several times an operation. */
int generation = 0;

/*
 * Where the store has the job's id while its ranks join. A launcher may keep the store when it
 * starts ranks anew, as torchrun does: a rank that finds the id of an earlier job would wait for
 * that one. So rank 0 takes it away when all have joined. Where they have not it stays, as late
 * ranks have to find an error rather than wait; torchrun's next attempt looks under another name.
 */
std::string id_key()
{
    const char *attempt = getenv("TORCHELASTIC_RESTART_COUNT");

    return std::string("braid_id") + (attempt ? std::string("_") + attempt : "");
}

void forget_id(c10d::Store &store)
{
    try {
        store.deleteKey(id_key());
    } catch (const std::exception &) {
        /* a store that cannot: it is none of torchrun's */
    }
}

} // namespace

Unlocked::Unlocked()
    : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr)
{
}

Unlocked::~Unlocked()
{
    if (state_)
        PyEval_RestoreThread(static_cast<PyThreadState *>(state_));
}

int milliseconds(std::chrono::milliseconds time)
{
    return static_cast<int>(std::clamp<int64_t>(time.count(), 1, INT_MAX));
}

std::chrono::steady_clock::time_point deadline(std::chrono::milliseconds timeout)
{
    constexpr std::chrono::hours CENTURY{24 * 36525};

    return std::chrono::steady_clock::now() + std::min<std::chrono::milliseconds>(timeout, CENTURY);
}

std::string failure(const std::string &call, int rc)
{
    const std::string error = std::string(" (") + strerrorname_np(-rc) + ")";

    if (rc == -ETIMEDOUT) /* "Timed out" is what gloo says, and programs look for */
        return "braid: " + call + ": Timed out" + error + ": " + braid_last_error();
    return "braid: " + call + ": " + braid_last_error() + error;
}

std::shared_ptr<Link> Link::join(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                                 std::chrono::milliseconds timeout)
{
    const auto end = deadline(timeout);
    struct braid_config config = {};
    struct braid_id id;
    braid_comm *comm;
    int rc;

    if (rank == 0) {
        rc = braid_id_create(&id);
        if (rc) {
            const std::string words = failure("init", rc);
            store->set(id_key(), std::vector<uint8_t>(words.begin(), words.end()));
            C10_THROW_ERROR(DistBackendError, words);
        }
        try {
            store->set(id_key(), std::vector<uint8_t>(id.bytes, id.bytes + sizeof id.bytes));
        } catch (...) {
            braid_id_free(&id);
            throw;
        }
    } else {
        try {
            store->wait({id_key()}, timeout);
        } catch (const std::exception &error) {
            C10_THROW_ERROR(DistBackendError,
                            c10::str("braid: rank ", rank, ": init: rank 0 has not begun within ",
                                     timeout.count(), " ms: ", error.what()));
        }
        const std::vector<uint8_t> bytes = store->get(id_key());
        if (bytes.size() != sizeof id.bytes)
            C10_THROW_ERROR(DistBackendError, "braid: init: rank 0 could not begin: " +
                                                  std::string(bytes.begin(), bytes.end()));
        std::copy(bytes.begin(), bytes.end(), id.bytes);
    }
    config.struct_size = sizeof config;
    config.rank = rank;
    config.size = size;
    config.id = &id;
    config.init_timeout_ms =
        milliseconds(std::chrono::ceil<std::chrono::milliseconds>(end - Time::clock::now()));
    config.timeout_ms = milliseconds(timeout);
    rc = braid_init(&config, &comm);
    if (rank == 0 && rc == 0)
        forget_id(*store);
    if (rc)
        C10_THROW_ERROR(DistBackendError, failure("init", rc));
    std::shared_ptr<Link> link(new Link(comm, rank));
    link->tellers_->start();
    std::lock_guard<std::mutex> guard(links->lock);
    links->all.insert(link);
    return link;
}

Link::Link(braid_comm *comm, int rank_of)
    : rank(rank_of), comm_(comm), pid_(getpid()), generation_(generation)
{
    epochs_.push_back(std::make_shared<std::atomic<long>>(0));
}

Link::Use::Use(const Link &link)
    : link_(link), granted_(link.calls_.fetch_add(1) >= 0 && !link.left_.load() && link.is_mine())
{
}

Link::Use::~Use()
{
    link_.calls_.fetch_sub(1);
}

bool Link::is_mine() const
{
    return generation_ == generation;
}

void Link::check_process() const
{
    TORCH_CHECK(is_mine(), "braid: this process group belongs to process ", pid_,
                ", of which this one is a fork(): it cannot be used here");
}

braid_comm *Link::comm() const
{
    check_process();
    TORCH_CHECK(!leaving_.load(),
                "braid: this process group has been shut down: it takes no more operations");
    return comm_;
}

void Link::check(const char *name) const
{
    const Use use(*this);
    const int rc = use ? braid_comm_error(comm_) : 0;

    if (!use)
        comm();
    if (rc)
        C10_THROW_ERROR(DistBackendError, failure(name, rc));
}

/* ---- the end --------------------------------------------------------------------------------- */

void Link::hold()
{
    std::lock_guard<std::mutex> guard(life_);
    TORCH_CHECK(!closed_, "braid: this process group has been shut down");
    holds_++;
}

void Link::release()
{
    if (!is_mine())
        return;
    {
        std::lock_guard<std::mutex> guard(life_);
        if (--holds_ > 0 || !closed_)
            return;
    }
    finalize();
}

void Link::close()
{
    if (!is_mine())
        return;
    {
        std::lock_guard<std::mutex> guard(life_);
        closed_ = true;
        if (holds_ > 0)
            return;
    }
    finalize();
}

/* At `end` operations under way are given up. */
void Link::close_forced(Time end)
{
    {
        std::lock_guard<std::mutex> guard(life_);
        closed_ = true;
    }
    while (running_.load() > 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (running_.load() > 0)
        abort("the process group went away with operations under way");
}

void Link::abort(const std::string &reason)
{
    const Use use(*this);

    if (use)
        braid_comm_abort(comm_, reason.c_str());
}

/*
 * Leaves the job. Before, all operations end, at the latest by their deadlines, while other threads
 * may be in calls of braid's; and the threads end what they were given, as copies that follow an
 * operation read memory of the communicator's.
 */
void Link::finalize()
{
    Unlocked unlocked;
    const auto none = [](const std::atomic<long> &count) {
        while (count.load() > 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };

    if (leaving_.exchange(true))
        return;
    {
        std::lock_guard<std::mutex> guard(links->lock);
        links->all.erase(shared_from_this());
    }
    none(running_);
    left_.store(true);
    none(calls_);
    none(running_); /* of who was about to submit */
    tellers_->wait();
    const int rc = braid_finalize(comm_);
    if (rc && rc != -ECANCELED && rc != -ECONNRESET)
        TORCH_WARN(failure("shutdown", rc));
    tellers_->stop();
}

void Link::close_all(std::chrono::milliseconds grace)
{
    const auto end = std::chrono::steady_clock::now() + grace;
    Unlocked unlocked;
    std::set<std::shared_ptr<Link>> all;
    {
        std::lock_guard<std::mutex> guard(links->lock);
        all = links->all;
    }
    for (const std::shared_ptr<Link> &link : all)
        link->close_forced(end);
    for (const std::shared_ptr<Link> &link : all)
        link->finalize();
}

void Link::forget_all()
{
    generation++;
    links = new Links; /* another thread of the parent's may have held the lock */
}

/* ---- memory ---------------------------------------------------------------------------------- */

at::Tensor Link::allocate(int64_t count, const at::TensorOptions &options)
{
    TORCH_CHECK(options.device().is_cpu(), "braid allocates tensors of CPUs only");
    const size_t bytes = static_cast<size_t>(count) * options.dtype().itemsize();
    hold();
    void *memory = braid_alloc(comm(), std::max<size_t>(bytes, 1));
    if (!memory) {
        const std::string words = failure("braid_alloc", -ENOMEM);
        release();
        TORCH_CHECK(false, words);
    }
    return at::from_blob(
        memory, {count},
        [link = shared_from_this()](void *freed) {
            {
                const Use use(*link);
                if (use)
                    braid_free(link->comm_, freed); /* -EBUSY: freed with the group */
            }
            link->release();
        },
        options);
}

at::Tensor Link::scratch(int64_t count, const at::TensorOptions &options)
{
    constexpr size_t LARGEST = size_t{64} << 20, SMALLEST = 4096;
    size_t bytes = SMALLEST;

    while (bytes < static_cast<size_t>(count) * options.dtype().itemsize())
        bytes *= 2;
    if (bytes > LARGEST || !options.device().is_cpu())
        return at::empty({count}, options);
    void *memory = take(bytes);
    if (!memory)
        return at::empty({count}, options);
    return at::from_blob(
        memory, {count},
        [link = shared_from_this(), bytes](void *used) { link->give_back(used, bytes); }, options);
}

void *Link::take(size_t bytes)
{
    {
        std::lock_guard<std::mutex> guard(blocks_lock_);
        std::vector<void *> &blocks = blocks_[bytes];
        if (!blocks.empty()) {
            void *block = blocks.back();
            blocks.pop_back();
            blocks_bytes_ -= bytes;
            return block;
        }
    }
    const Use use(*this);
    return use ? braid_alloc(comm_, bytes) : nullptr;
}

void Link::give_back(void *memory, size_t bytes)
{
    constexpr size_t KEPT = size_t{128} << 20;

    if (!is_mine())
        return;
    {
        std::lock_guard<std::mutex> guard(blocks_lock_);
        if (blocks_bytes_ + bytes <= KEPT) {
            blocks_[bytes].push_back(memory);
            blocks_bytes_ += bytes;
            return;
        }
    }
    const Use use(*this);
    if (use)
        braid_free(comm_, memory); /* -EBUSY: freed with the group */
}

/* ---- ends of operations ---------------------------------------------------------------------- */

std::shared_ptr<std::atomic<long>> Link::began(bool collective)
{
    const std::shared_ptr<std::atomic<long>> &epoch = collective ? epochs_.back() : messages_;

    running_.fetch_add(1, std::memory_order_relaxed);
    epoch->fetch_add(1, std::memory_order_relaxed);
    return epoch;
}

std::vector<std::shared_ptr<std::atomic<long>>> Link::next_epoch()
{
    std::vector<std::shared_ptr<std::atomic<long>>> before;

    for (const auto &epoch : epochs_)
        if (epoch->load(std::memory_order_acquire) > 0)
            before.push_back(epoch);
    epochs_ = before;
    epochs_.push_back(std::make_shared<std::atomic<long>>(0));
    return before;
}

void Link::ended(Operation *operation, bool tell)
{
    if (tell)
        tellers_->put(operation);
    running_.fetch_sub(1);
}

} // namespace braid_torch
