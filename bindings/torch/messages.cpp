/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between two ranks, and the barrier that is made of them. */
#include <cerrno>

#include <c10/util/Exception.h>

#include "group.hpp"
#include "convert.hpp"

namespace braid_torch
{

namespace
{

/* Tags of c10d are int, at least 0; those with this bit are the backend's own. */
constexpr uint32_t OWN = 0x80000000;

Call message(const char *name, OpType type, Tensors &tensors, int tag)
{
    const at::Tensor &tensor = only(name, tensors);
    Call call(name, type);

    if (tag < 0)
        refuse(name, "tag is " + std::to_string(tag) + "; it is at least 0");
    call.device = tensor.device();
    call.streams = false;
    call.messages = true;
    call.inputs = tensors;
    call.outputs = {tensors};
    return call;
}

void check_peer(const char *name, int peer, int rank, int size)
{
    if (peer < 0 || peer >= size)
        refuse(name, "rank " + std::to_string(peer) + " is not in the group, which has " +
                         std::to_string(size));
    if (peer == rank)
        refuse(name, "a rank cannot exchange messages with itself");
}

/* submit(to, options): one of braid's functions, with the tag in the options. */
template <class Submit> void add_tagged(Call &call, int tag, Submit submit)
{
    call.parts.push_back([=](const Target &to) {
        braid_options options = *to.options;

        options.tag = static_cast<uint32_t>(tag);
        return submit(to, options);
    });
}

/* With one peer: `function` is braid_send or braid_recv. */
template <auto function>
Call exchange(const char *name, OpType type, Tensors &tensors, int peer, int tag)
{
    Call call = message(name, type, tensors, tag);

    add_tagged(call, tag,
               [=, data = tensors[0].data_ptr(),
                bytes = tensors[0].nbytes()](const Target &to, const braid_options &options) {
                   return function(to.comm, data, bytes, peer, &options, to.op);
               });
    return call;
}

} // namespace

WorkPtr Group::send(Tensors &tensors, int peer, int tag)
{
    check_peer("send", peer, rank_, size_);
    return run(exchange<braid_send>("send", OpType::SEND, tensors, peer, tag), "braid:send",
               c10d::kUnsetTimeout);
}

WorkPtr Group::recv(Tensors &tensors, int peer, int tag)
{
    check_peer("recv", peer, rank_, size_);
    return run(exchange<braid_recv>("recv", OpType::RECV, tensors, peer, tag), "braid:recv",
               c10d::kUnsetTimeout);
}

WorkPtr Group::recvAnysource(Tensors &tensors, int tag)
{
    Call call = message("recv", OpType::RECVANYSOURCE, tensors, tag);
    const size_t bytes = tensors[0].nbytes();
    const auto received = std::make_shared<braid_received>();

    received->struct_size = sizeof *received;
    call.received = received;
    add_tagged(call, tag,
               [=, data = tensors[0].data_ptr()](const Target &to, const braid_options &options) {
                   return braid_recv_any(to.comm, data, bytes, BRAID_ANY_SOURCE, &options,
                                         received.get(), to.op);
               });
    call.then = [=] {
        TORCH_CHECK(received->bytes == bytes, "braid: recv: rank ", received->peer, " has sent ",
                    received->bytes, " bytes, and the tensor has ", bytes);
    };
    return run(std::move(call), "braid:recvAnySource", c10d::kUnsetTimeout);
}

/* ---- monitored barrier ----------------------------------------------------------------------- */

/*
 * Each rank sends a message to rank 0, which looks for these (braid_probe()) in place of receiving
 * them: a receive that waits in vain would end the communicator. Rank 0 answers all that came, with
 * the outcome. Tags carry the number of the barrier: what comes too late for one is not taken for
 * the next.
 */

using Clock = std::chrono::steady_clock;

/* One call of braid's, which returns 0 or an error. The communicator stays there for the call only:
 * between two of them a signal's handler may shut the group down. */
template <class Function> static void call_braid(const Link &link, Function function)
{
    const Link::Use use(link);
    const int rc = function(link.comm());

    if (rc)
        C10_THROW_ERROR(DistBackendError, failure("monitoredBarrier", rc));
}

static void send_outcome(const Link &link, unsigned char outcome, int peer,
                         const braid_options &options)
{
    call_braid(link, [&](braid_comm *comm) {
        return braid_send(comm, &outcome, sizeof outcome, peer, &options, nullptr);
    });
}

static bool receive_outcome(const Link &link, int peer, const braid_options &options)
{
    unsigned char outcome = 0;

    call_braid(link, [&](braid_comm *comm) {
        return braid_recv(comm, &outcome, sizeof outcome, peer, &options, nullptr);
    });
    return outcome;
}

/* Looks for a message until `end`. */
static bool find_message(const Link &link, int peer, const braid_options &options,
                         Clock::time_point end)
{
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
        const int ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, SLICE_MS));
        int found = 0;
        braid_received received = {};
        call_braid(link, [&](braid_comm *comm) {
            return braid_probe(comm, peer, &options, ms, &found, &received);
        });
        if (found)
            return true;
        if (left.count() <= SLICE_MS)
            return false;
        hear_signals();
    }
}

void Group::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_for_all)
{
    uint32_t tag;
    std::chrono::milliseconds timeout;
    {
        std::lock_guard<std::mutex> guard(order_);
        tag = OWN | (monitored_++ & ~OWN);
        timeout = options.timeout == c10d::kUnsetTimeout ? options_->timeout : options.timeout;
    }
    if (rank_ == 0)
        monitor(tag, timeout, wait_for_all);
    else
        pass_monitored(tag, timeout);
}

/* Any other rank than 0. */
void Group::pass_monitored(uint32_t tag, std::chrono::milliseconds timeout)
{
    braid_options options = {};
    bool passed = false;

    options.struct_size = sizeof options;
    options.tag = tag;
    options.timeout_ms = milliseconds(timeout);
    send_outcome(*link_, 0, 0, options); /* that it has come */
    if (find_message(*link_, 0, options, deadline(timeout)))
        passed = receive_outcome(*link_, 0, options);
    if (!passed)
        C10_THROW_ERROR(DistBackendError,
                        c10::str("[Rank ", rank_, "]: Rank ", rank_,
                                 " successfully reached monitoredBarrier, but received errors "
                                 "while waiting for send/recv from rank 0. Please check rank 0 "
                                 "logs for faulty rank."));
}

void Group::monitor(uint32_t tag, std::chrono::milliseconds timeout, bool wait_for_all)
{
    const Clock::time_point end = deadline(timeout);
    braid_options options = {};
    std::vector<int> came, missing;

    options.struct_size = sizeof options;
    options.tag = tag;
    options.timeout_ms = milliseconds(timeout);
    for (int peer = 1; peer < size_ && (missing.empty() || wait_for_all); peer++) {
        if (!find_message(*link_, peer, options, end)) {
            missing.push_back(peer);
            continue;
        }
        receive_outcome(*link_, peer, options);
        came.push_back(peer);
    }
    for (const int peer : came)
        send_outcome(*link_, missing.empty(), peer, options);
    if (!missing.empty())
        C10_THROW_ERROR(DistBackendError,
                        c10::str("[Rank 0]: Rank", missing.size() > 1 ? "s " : " ",
                                 c10::Join(", ", missing), " failed to pass monitoredBarrier in ",
                                 timeout.count(), " ms"));
}

} // namespace braid_torch
