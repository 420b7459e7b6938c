/* SPDX-License-Identifier: BSD-3-Clause */
/* braid. BENCH_MEMORY=malloc (default) or alloc: where what is sent and received lies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <braid/braid.h>

#include "p2p.h"

static struct braid_comm *comm;
static int other; /* rank */
static struct braid_op *ops[P2P_WINDOW];
static struct braid_key key; /* of rank 1's memory */

static int said(int rc, const char *what)
{
    if (rc)
        fprintf(stderr, "rank %d: %s: %s\n", comm ? braid_rank(comm) : -1, what,
                braid_last_error());
    return rc != 0;
}

static void *memory(size_t bytes)
{
    const char *kind = getenv("BENCH_MEMORY");
    return kind && !strcmp(kind, "alloc") ? braid_alloc(comm, bytes) : malloc(bytes);
}

static int send_one(const void *from, size_t bytes)
{
    return said(braid_send(comm, from, bytes, other, NULL, NULL), "send");
}

static int recv_one(void *into, size_t bytes)
{
    return said(braid_recv(comm, into, bytes, other, NULL, NULL), "receive");
}

static int start_send(int i, const void *from, size_t bytes)
{
    return said(braid_send(comm, from, bytes, other, NULL, &ops[i]), "send");
}

static int start_recv(int i, void *into, size_t bytes)
{
    return said(braid_recv(comm, into, bytes, other, NULL, &ops[i]), "receive");
}

static int wait_for(int n)
{
    for (int i = 0; i < n; i++)
        if (said(braid_wait(ops[i], -1), "wait"))
            return 1;
    return 0;
}

static int expose(size_t bytes)
{
    void *exposed = braid_alloc(comm, bytes);
    if (!exposed || said(braid_key(comm, exposed, &key), "key"))
        return 1;
    return other == 1 ? recv_one(&key, sizeof key) : send_one(&key, sizeof key);
}

static int put(int n, const void *from, size_t bytes)
{
    if (n == 1)
        return said(braid_put(comm, from, bytes, &key, 0, NULL, NULL), "put");
    for (int i = 0; i < n; i++)
        if (said(braid_put(comm, from, bytes, &key, 0, NULL, &ops[i]), "put"))
            return 1;
    return wait_for(n);
}

static int get(int n, void *into, size_t bytes)
{
    if (n == 1)
        return said(braid_get(comm, into, bytes, &key, 0, NULL, NULL), "get");
    for (int i = 0; i < n; i++)
        if (said(braid_get(comm, into, bytes, &key, 0, NULL, &ops[i]), "get"))
            return 1;
    return wait_for(n);
}

int main(int argc, char **argv)
{
    if (said(braid_init(NULL, &comm), "braid_init"))
        return 1;
    struct p2p_peer peer = {.rank = braid_rank(comm),
                            .memory = memory,
                            .expose = expose,
                            .send = send_one,
                            .recv = recv_one,
                            .start_send = start_send,
                            .start_recv = start_recv,
                            .wait = wait_for,
                            .put = put,
                            .get = get};
    other = 1 - peer.rank;
    int code = p2p_measure(&peer, argc, argv);
    if (code) {
        braid_comm_abort(comm, "a rank of the benchmark failed");
        braid_finalize(comm);
        return code;
    }
    return said(braid_finalize(comm), "braid_finalize");
}
