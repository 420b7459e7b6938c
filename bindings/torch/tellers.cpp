/* SPDX-License-Identifier: BSD-3-Clause */
#include "tellers.hpp"
#include "work.hpp"

#include <cerrno>
#include <chrono>
#include <system_error>

namespace braid_torch
{

/* Of a thread of these. */
static thread_local const Tellers *telling = nullptr;

static void wait_post(sem_t *semaphore)
{
    while (sem_wait(semaphore) && errno == EINTR)
        ;
}

Tellers::Tellers()
{
    sem_init(&ready_, 0, 0);
    sem_init(&watch_, 0, 0);
}

Tellers::~Tellers()
{
    sem_destroy(&ready_);
    sem_destroy(&watch_);
}

void Tellers::start()
{
    std::lock_guard<std::mutex> guard(lock_);

    TORCH_CHECK(start_teller(), "braid: no thread to be had");
}

bool Tellers::start_thread(void (Tellers::*body)())
{
    try {
        threads_.emplace_back([self = shared_from_this(), body] { (self.get()->*body)(); });
    } catch (const std::system_error &) {
        return false;
    }
    return true;
}

bool Tellers::start_teller()
{
    const bool started = start_thread(&Tellers::tell);

    idle_ += started;
    return started;
}

void Tellers::put(Operation *operation)
{
    Operation *head = ends_.load(std::memory_order_relaxed);

    untold_.fetch_add(1);
    do
        operation->next = head;
    while (!ends_.compare_exchange_weak(head, operation));
    sem_post(&ready_);
    if (idle_.load() == 0) /* else who becomes the last at work finds it in ends_ */
        wake_watcher();
}

void Tellers::wait() const
{
    const long mine = telling == this ? 1 : 0;

    while (untold_.load() > mine)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Tellers::stop()
{
    std::vector<std::thread> ending;
    {
        std::lock_guard<std::mutex> guard(lock_);
        stop_ = true;
        ending.swap(threads_);
    }
    stopped_.notify_all();
    sem_post(&watch_);
    for (size_t i = 0; i < ending.size(); i++)
        sem_post(&ready_);
    for (std::thread &thread : ending) {
        if (thread.get_id() == std::this_thread::get_id())
            thread.detach(); /* a callback has dropped the group */
        else
            thread.join();
    }
}

/* ---- who tells ------------------------------------------------------------------------------- */

void Tellers::tell()
{
    bool first = true;

    telling = this;
    while (Operation *operation = next(first)) {
        first = false;
        operation->tell();
        untold_.fetch_sub(1);
    }
}

/* The oldest that nobody has taken; NULL: the end. */
Operation *Tellers::next(bool first)
{
    if (!first) { /* start_teller() has counted it */
        std::lock_guard<std::mutex> guard(lock_);
        told_++;
        idle_++;
    }
    wait_post(&ready_);
    std::lock_guard<std::mutex> guard(lock_);
    idle_--;
    Operation *oldest_first = nullptr;
    for (Operation *list = ends_.exchange(nullptr); list;) {
        Operation *const older = list->next;
        list->next = oldest_first;
        oldest_first = list;
        list = older;
    }
    for (; oldest_first; oldest_first = oldest_first->next)
        queue_.push_back(oldest_first);
    if (queue_.empty())
        return nullptr;
    Operation *oldest = queue_.front();
    queue_.pop_front();
    if (!watched_ && !stop_) /* without one, callbacks cannot wait for each other */
        watched_ = start_thread(&Tellers::watch);
    if (stuck())
        wake_watcher();
    return oldest;
}

/* ---- who watches ----------------------------------------------------------------------------- */

bool Tellers::stuck()
{
    return !stop_ && idle_.load() == 0 && (!queue_.empty() || ends_.load());
}

void Tellers::wake_watcher()
{
    if (!posted_.exchange(true))
        sem_post(&watch_);
}

void Tellers::watch()
{
    constexpr std::chrono::milliseconds QUIET{10}, QUIET_EACH{1};

    for (;;) {
        wait_post(&watch_);
        posted_.store(false); /* before it looks: what is put behind that posts again */
        std::unique_lock<std::mutex> guard(lock_);
        while (stuck()) {
            const uint64_t told = told_;
            stopped_.wait_for(guard, QUIET + QUIET_EACH * threads_.size(),
                              [this] { return stop_; });
            if (told_ == told && stuck())
                start_teller();
        }
        if (stop_)
            return;
    }
}

} // namespace braid_torch
