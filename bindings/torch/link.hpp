/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process group is made of besides its calls: a job of braid's, and threads that tell the
 * program of ends (tellers.hpp).
 *
 * 1. Each group is a job of its own (braid_init()), found by the group's store: groups are made by
 *    their members alone, in any order, and what ends one group (a dead rank, a time-out, abort())
 *    leaves the others as they are. Rejected: braid_comm_group() over the default group. It shares
 *    links and the worker thread, but then the first error ends all groups at once, the default
 *    group must be braid's, and it must outlive the others.
 *
 * 2. Nothing of Python, no lock that is held for long and no memory's release may happen in
 *    braid_options.done, which runs in the middle of braid's progress. It only marks the operation,
 *    and where somebody must be told (a future, a Work that was dropped before its end, copies that
 *    follow the operation) it puts the operation to these threads, which do the rest.
 */
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <braid/gpu.h>

#include "tellers.hpp"

namespace braid_torch
{

class Link : public std::enable_shared_from_this<Link>
{
  public:
    /* Joins the job of these ranks: rank 0 makes the job's id and puts it into the store.
     * Collective; blocks up to `timeout` in all, without the interpreter's lock. Throws
     * DistBackendError.
     */
    static std::shared_ptr<Link> join(const c10::intrusive_ptr<c10d::Store> &store, int rank,
                                      int size, std::chrono::milliseconds timeout);
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;

    /* For a call of braid's that takes the communicator: while it exists the communicator does. No
     * Python may run meanwhile, which could drop the group: leaving waits for this. */
    class Use
    {
      public:
        explicit Use(const Link &link);
        ~Use();
        Use(const Use &) = delete;
        Use &operator=(const Use &) = delete;
        /* Whether there is one; not so when the group has left, and in a child of fork(). */
        explicit operator bool() const
        {
            return granted_;
        }

      private:
        const Link &link_;
        const bool granted_;
    };

    /* Throws when the group has been shut down, or belongs to the parent of this process. */
    braid_comm *comm() const;
    /* Throws in a child of fork(), which has none of its parent's threads. */
    void check_process() const;
    /* Throws what has ended the communicator. */
    void check(const char *name) const;
    const int rank;

    /* An operation begins: returns the count of those since the last barrier, of which it is one;
     * of one that no barrier waits for, a count of its like. Under the group's lock. */
    std::shared_ptr<std::atomic<long>> began(bool collective);
    /* It has ended, and is put to the threads if `tell`. From any thread, also braid's. */
    void ended(Operation *operation, bool tell);
    /* A barrier comes: returns the counts of the operations before it that may still run. Under the
     * group's lock. */
    std::vector<std::shared_ptr<std::atomic<long>>> next_epoch();

    /* Memory of the communicator's, or a borrowed handle of it, is in use: it lives on. */
    void hold();
    void release();

    /* A tensor of `count` elements in memory that peers of this host read in place: of
     * braid_alloc(), as long as the tensor lives; at most until the program ends (close_all()). */
    at::Tensor allocate(int64_t count, const at::TensorOptions &options);
    /* The same for the time of an operation, from a store of blocks that serve again, of which 128
     * MiB are kept until the group ends; torch's own memory above 64 MiB and for GPUs. */
    at::Tensor scratch(int64_t count, const at::TensorOptions &options);

    /* Leaves the job, now or when the last hold is gone: waits for the operations under way, and
     * until what follows them has been done. Again: nothing. */
    void close();
    void abort(const std::string &reason);

    /* At the end of the program: all links of this process leave, held or not. After `grace` for
     * the operations under way they are given up. */
    static void close_all(std::chrono::milliseconds grace);
    /* In a child of fork(): those of its parent are none of its own. */
    static void forget_all();

  private:
    Link(braid_comm *comm, int rank);
    using Time = std::chrono::steady_clock::time_point;

    bool is_mine() const; /* in a child of fork() there are no threads, and no peers */
    void close_forced(Time end);
    void finalize();
    void *take(size_t bytes);
    void give_back(void *memory, size_t bytes);

    braid_comm *comm_;
    const int pid_; /* the process that has joined */
    const int generation_;
    std::mutex life_;
    bool closed_ = false;
    std::atomic<bool> leaving_{false}; /* no more operations are taken */
    std::atomic<bool> left_{false};    /* no call of braid's with comm_ begins */
    mutable std::atomic<long> calls_{0};
    long holds_ = 0;
    std::atomic<long> running_{0};
    std::vector<std::shared_ptr<std::atomic<long>>> epochs_; /* between barriers; not empty */
    const std::shared_ptr<std::atomic<long>> messages_ = std::make_shared<std::atomic<long>>(0);

    std::mutex blocks_lock_;
    std::map<size_t, std::vector<void *>> blocks_; /* of scratch(), by size */
    size_t blocks_bytes_ = 0;

    const std::shared_ptr<Tellers> tellers_ = std::make_shared<Tellers>();
};

/* While it exists other threads may run Python, if this one holds the interpreter's lock. */
class Unlocked
{
  public:
    Unlocked();
    ~Unlocked();
    Unlocked(const Unlocked &) = delete;
    Unlocked &operator=(const Unlocked &) = delete;

  private:
    void *state_;
};

/* The longest that a thread that waits hears no signal. */
constexpr int SLICE_MS = 100;
/* In the thread that hears signals: runs the handlers of those that have come, and throws what they
 * raise (KeyboardInterrupt). */
void hear_signals();

/* At most INT_MAX; what is not positive becomes 1: braid's 0 is a default of its own. */
int milliseconds(std::chrono::milliseconds time);

/* So long from now; at most a century, where sums stay in range. */
std::chrono::steady_clock::time_point deadline(std::chrono::milliseconds timeout);

/* What braid says of the calling thread's last error, in words that begin with the call's name. */
std::string failure(const std::string &call, int rc);

} // namespace braid_torch
