/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads that tell the program of the ends of operations.
 *
 * 1. One thread does it, and a second watches. A callback of a future may wait for another future
 *    (PowerSGD's hook does), whose operation is behind it in the queue: so the watcher starts a
 *    further thread when all are at work, an operation waits, and none has been told for 10 ms and
 *    one more for each thread there is.
 * 2. Rejected: a further thread as soon as the last one takes an operation. Callbacks wait for the
 *    interpreter's lock most of the time; where the machine is busy there soon were hundreds of
 *    threads in that queue.
 * 3. The watcher sleeps until an operation waits while all threads are at work. Threads that have
 *    been started stay: what made them necessary comes again with the next iteration.
 */
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <semaphore.h>
#include <thread>
#include <vector>

namespace braid_torch
{

class Operation;

class Tellers : public std::enable_shared_from_this<Tellers>
{
  public:
    Tellers();
    ~Tellers();
    Tellers(const Tellers &) = delete;
    Tellers &operator=(const Tellers &) = delete;

    /* The first thread; throws where none is to be had. */
    void start();
    /* Has a thread call operation->tell(). From any thread, also in the middle of braid's progress:
     * takes no lock. */
    void put(Operation *operation);
    /* Until all that was put has been told, but for what the calling thread itself is telling. */
    void wait() const;
    /* Ends the threads; all has been told. Where one of them calls, it ends on its own. */
    void stop();

  private:
    bool start_thread(void (Tellers::*body)()); /* with lock_; false: none is to be had */
    bool start_teller();                        /* with lock_ */
    void tell();
    Operation *next(bool first);
    void watch();
    void wake_watcher();
    bool stuck(); /* with lock_: operations wait, and no thread does */

    std::atomic<long> untold_{0};            /* put, and what follows has not been done */
    std::atomic<Operation *> ends_{nullptr}; /* what was put, newest first */
    sem_t ready_; /* one post an operation in ends_ or queue_, and one a thread at the end */
    std::mutex lock_;
    std::deque<Operation *> queue_; /* taken from ends_, oldest first */
    std::vector<std::thread> threads_;
    std::atomic<int> idle_{0};        /* tellers that wait for ready_, or have been started to */
    uint64_t told_ = 0;               /* operations, ever */
    bool watched_ = false;            /* the watcher has been started */
    sem_t watch_;                     /* posted when the watcher should look */
    std::atomic<bool> posted_{false}; /* watch_ is, and it has not begun to */
    bool stop_ = false;
    std::condition_variable stopped_;
};

} // namespace braid_torch
