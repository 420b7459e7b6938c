/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives of any rank, tag and length, probes, and receivers that are behind, between real
 * processes over every back end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/system/ranks.h"

enum { ROUNDS = 12, TAGS = 3 };
#define LARGEST (300u << 10)

static size_t size_of(int sender, int i)
{
    static const size_t sizes[] = {0, 8, 2049, LARGEST, 24, 40000, 16384, 100};

    return sizes[(sender * 3 + i) % 8];
}

static bool is_from(const uint8_t *memory, size_t bytes, int sender, int i)
{
    for (size_t k = 0; k < bytes; k++)
        if (memory[k] != (uint8_t)(sender * 50 + i))
            return false;
    return true;
}

static int send_all(struct braid_comm *comm, int to)
{
    static uint8_t memory[ROUNDS][LARGEST];
    struct braid_op *ops[ROUNDS];
    int rank = braid_rank(comm);

    for (int i = 0; i < ROUNDS; i++) {
        struct braid_options options = {.tag = (uint32_t)(i % TAGS)};

        memset(memory[i], rank * 50 + i, size_of(rank, i));
        RETURNS(0, braid_send(comm, memory[i], size_of(rank, i), to, &options, &ops[i]));
    }
    for (int i = 0; i < ROUNDS; i++)
        RETURNS(0, braid_wait(ops[i], -1));
    return 0;
}

/* One after the other, in each way; the messages of a rank come in the order in which it sent
 * them. */
static int receive_all(struct braid_comm *comm)
{
    static uint8_t memory[LARGEST];
    const struct braid_options any = {.struct_size = sizeof any, .tag_ignore = BRAID_ANY_TAG};
    int next[RANKS_MOST] = {0}, size = braid_size(comm);

    for (int n = 0; n < ROUNDS * (size - 1); n++) {
        struct braid_received r = {0};
        int i, found = 0;

        switch (n % 3) {
        case 0:
            RETURNS(0, braid_recv_any(comm, memory, LARGEST, BRAID_ANY_SOURCE, &any, &r, NULL));
            break;
        case 1:
            RETURNS(0, braid_probe(comm, BRAID_ANY_SOURCE, &any, -1, &found, &r));
            CHECK(found == 1, "a probe without end found nothing");
            RETURNS(0, braid_recv(comm, memory, r.bytes, r.peer,
                                  &(struct braid_options){.tag = r.tag}, NULL));
            break;
        default:
            RETURNS(0, braid_claim(comm, BRAID_ANY_SOURCE, &any, -1, &found, &r));
            RETURNS(0, braid_recv_claimed(comm, memory, &r, NULL, NULL));
            break;
        }
        CHECK(r.peer > 0 && r.peer < size, "message %d is of rank %d", n, r.peer);
        i = next[r.peer]++;
        CHECK(r.tag == (uint32_t)(i % TAGS) && r.bytes == size_of(r.peer, i) &&
                  is_from(memory, r.bytes, r.peer, i),
              "message %d of rank %d: tag %u, %zu bytes", i, r.peer, r.tag, r.bytes);
    }
    return 0;
}

static int any_rank_and_tag(struct braid_comm *comm, void *context)
{
    const struct braid_options none = {.tag = TAGS};
    struct braid_received r = {0};
    int found = 1;

    (void)context;
    RETURNS(0, braid_probe(comm, BRAID_ANY_SOURCE, &none, 0, &found, &r));
    CHECK(!found, "a message that nobody has sent");
    if (braid_rank(comm))
        RETURNS(0, send_all(comm, 0));
    else
        RETURNS(0, receive_all(comm));
    return braid_barrier(comm, NULL, NULL);
}

static void receive_any__over_every_back_end(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 3, any_rank_and_tag);
}

static int arguments(struct braid_comm *comm, void *context)
{
    struct braid_received r = {.struct_size = 3}, good = {0};
    uint8_t memory[8];
    int found;

    (void)context;
    RETURNS(-EINVAL, braid_recv_any(comm, memory, 8, 0, NULL, &r, NULL));
    RETURNS(-EINVAL, braid_recv_any(comm, memory, 8, -2, NULL, &good, NULL));
    RETURNS(-EINVAL, braid_recv_any(comm, memory, 8, 2, NULL, NULL, NULL));
    RETURNS(-EINVAL, braid_recv(comm, memory, 8, BRAID_ANY_SOURCE, NULL, NULL));
    RETURNS(-EINVAL, braid_probe(comm, 0, NULL, 0, NULL, &good));
    RETURNS(-EINVAL, braid_probe(comm, 0, NULL, 0, &found, NULL));
    RETURNS(-EINVAL, braid_claim(comm, 2, NULL, 0, &found, &good));
    RETURNS(-EINVAL, braid_recv_claimed(comm, memory, NULL, NULL, NULL));
    RETURNS(0, braid_probe(comm, 0, NULL, 20, &found, &good));
    CHECK(!found, "a message that nobody has sent");
    /* one that is too long stays */
    if (braid_rank(comm)) {
        RETURNS(0, braid_send(comm, "1234567", 8, 0, NULL, NULL));
    } else {
        RETURNS(-EMSGSIZE, braid_recv_any(comm, memory, 7, BRAID_ANY_SOURCE, NULL, &good, NULL));
        CHECK(good.bytes == 8 && good.peer == 1, "%zu bytes of rank %d", good.bytes, good.peer);
        RETURNS(0, braid_recv(comm, memory, 8, 1, NULL, NULL));
        CHECK(!strcmp((char *)memory, "1234567"), "other bytes");
    }
    return braid_barrier(comm, NULL, NULL);
}

static void receive_any__arguments(void **state)
{
    (void)state;
    ranks_everywhere(1, 2, arguments);
}

/* The end of the communicator ends a probe. */
static int ended_meanwhile(struct braid_comm *comm, void *context)
{
    struct braid_received r = {0};
    int found;

    (void)context;
    if (braid_rank(comm))
        return braid_comm_abort(comm, "enough");
    RETURNS(-ECANCELED, braid_probe(comm, BRAID_ANY_SOURCE, NULL, -1, &found, &r));
    CHECK(strstr(braid_last_error(), "enough"), "%s", braid_last_error());
    return 0;
}

static void probe__ended_by_the_communicator(void **state)
{
    (void)state;
    ranks_everywhere(1, 2, ended_meanwhile);
}

/* A leaf that is ahead of the root by more calls than its credits last for goes on when the root
 * has taken part in a few of them, though the root computes then: it calls nothing before the leaf
 * has returned from all of its calls. */
static int root_computes(struct braid_comm *comm, void *context)
{
    enum { CALLS = 70, FEW = 20 };
    uint64_t own, all[2];
    int rank = braid_rank(comm);

    (void)context;
    for (int i = 0; i < CALLS; i++) {
        if (rank == 0 && i == FEW)
            ranks_await(0, 1);
        own = (uint64_t)(100 * i + rank);
        RETURNS(0, braid_gather(comm, &own, all, sizeof own, BRAID_UINT8, 0, NULL, NULL));
        if (rank == 0)
            CHECK(all[1] == (uint64_t)(100 * i + 1), "call %d has %llu", i,
                  (unsigned long long)all[1]);
    }
    if (rank == 1)
        ranks_tell(0);
    return braid_barrier(comm, NULL, NULL);
}

static void credits__of_a_root_that_computes(void **state)
{
    (void)state;
    ranks_everywhere(2, 2, root_computes); /* over TCP, where messages need credits */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receive_any__over_every_back_end),
        cmocka_unit_test(receive_any__arguments),
        cmocka_unit_test(probe__ended_by_the_communicator),
        cmocka_unit_test(credits__of_a_root_that_computes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
