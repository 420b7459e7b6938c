// SPDX-License-Identifier: BSD-3-Clause
// Gloo over TCP. usage: RANK, WORLD_SIZE, GLOO_STORE (an empty directory that all ranks see), GLOO_INTERFACE.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "loop.h"

static std::shared_ptr<gloo::rendezvous::Context> context;

template <typename T>
static int run(const T *in, T *out, size_t count, void (*reduce)(void *, const void *, const void *, size_t))
{
    gloo::AllreduceOptions options(context);
    options.setInput(const_cast<T *>(in), count);
    options.setOutput(out, count);
    options.setReduceFunction(reduce);
    try {
        gloo::allreduce(options);
    } catch (const std::exception &e) {
        fprintf(stderr, "rank %d: gloo: %s\n", context->rank, e.what());
        return 1;
    }
    return 0;
}

static int collective(enum peer_collective which, const float *in, float *out, size_t count)
{
    if (which != PEER_ALLREDUCE) {
        fprintf(stderr, "gloo driver: all-reduce only\n");
        return 1;
    }
    return run<float>(in, out, count, gloo::sum<float>);
}

static int maximum(double *values, int count)
{
    return run<double>(values, values, static_cast<size_t>(count), gloo::max<double>);
}

static const char *need(const char *name)
{
    const char *value = getenv(name);
    if (!value) {
        fprintf(stderr, "gloo driver: set %s\n", name);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    struct peer peer = {};
    peer.rank = atoi(need("RANK"));
    peer.size = atoi(need("WORLD_SIZE"));
    peer.collective = collective;
    peer.maximum = maximum;
    try {
        gloo::transport::tcp::attr attr;
        attr.iface = need("GLOO_INTERFACE");
        gloo::rendezvous::FileStore store(need("GLOO_STORE"));
        context = std::make_shared<gloo::rendezvous::Context>(peer.rank, peer.size);
        auto device = gloo::transport::tcp::CreateDevice(attr);
        context->connectFullMesh(store, device);
    } catch (const std::exception &e) {
        fprintf(stderr, "rank %d: gloo: %s\n", peer.rank, e.what());
        return 1;
    }
    int code = peer_measure(&peer, argc, argv);
    context.reset();
    return code;
}
