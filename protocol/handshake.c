/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/handshake.h"

#include "base/error.h"
#include "protocol/message.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define VERSION_MIN BR_PROTOCOL_VERSION
#define VERSION_MAX BR_PROTOCOL_VERSION

/* The text of a reason and its errno, the same on both sides: two numbers, of the side that
 * refuses first. */
static int handshake_describe(uint32_t reason, uint32_t ours, uint32_t yours, char *text,
                              size_t size)
{
    switch (reason) {
    case BR_REFUSED_VERSION:
        snprintf(
            text, size,
            "protocol version %u on one side, %u on the other: install the same braid on all hosts",
            ours, yours);
        return EPROTONOSUPPORT;
    case BR_REFUSED_SECRET:
        snprintf(text, size, "the other side does not know this job's secret (BRAID_SECRET)");
        return EPERM;
    case BR_REFUSED_SIZE:
        snprintf(text, size,
                 "%u ranks on one side, %u on the other: set the same WORLD_SIZE everywhere", ours,
                 yours);
        return EPROTO;
    case BR_REFUSED_RANK:
        snprintf(text, size, "rank %u answers where rank %u was wanted: addresses of another job?",
                 ours, yours);
        return EPROTO;
    case BR_REFUSED_SELF:
        snprintf(text, size, "two processes are rank %u: give each its own RANK", ours);
        return EEXIST;
    case BR_REFUSED_RAIL:
        snprintf(text, size,
                 "%u rails on one side, rail %u wanted by the other: set the same BRAID_RAILS "
                 "everywhere",
                 ours, yours);
        return EPROTO;
    case BR_REFUSED_STALE:
        snprintf(text, size, "connection %u of this rail is known, %u came: an attempt of the past",
                 ours, yours);
        return ESTALE;
    default:
        snprintf(text, size, "malformed handshake message");
        return EPROTO;
    }
}

static struct br_handshake_header handshake_header_of(enum br_handshake_kind kind)
{
    return (struct br_handshake_header){.magic = BR_HANDSHAKE_MAGIC, .kind = (uint8_t)kind};
}

/* Ends in FAILED with a message, and tells the peer why. */
static int handshake_refuse(struct br_handshake *hs, enum br_handshake_reason reason, uint32_t ours,
                            uint32_t yours, void *reply, size_t *reply_bytes)
{
    struct br_handshake_refuse message = {.header = handshake_header_of(BR_HANDSHAKE_REFUSE),
                                          .reason = reason,
                                          .ours = ours,
                                          .yours = yours};
    char text[160];
    int err = handshake_describe(reason, ours, yours, text, sizeof text);

    memcpy(reply, &message, sizeof message);
    *reply_bytes = sizeof message;
    hs->state = BR_HANDSHAKE_FAILED;
    hs->error = -err;
    if (hs->peer == UINT32_MAX)
        return br_error(err, "rank %u refuses a link: %s", hs->self.rank, text);
    return br_error(err, "rank %u refuses the link of rail %u with rank %u: %s", hs->self.rank,
                    hs->rail, hs->peer, text);
}

static int handshake_malformed(struct br_handshake *hs, void *reply, size_t *reply_bytes)
{
    return handshake_refuse(hs, BR_REFUSED_MALFORMED, 0, 0, reply, reply_bytes);
}

static int handshake_refused(struct br_handshake *hs, const void *bytes)
{
    struct br_handshake_refuse message;
    char text[160];
    int err;

    memcpy(&message, bytes, sizeof message);
    err = handshake_describe(message.reason, message.ours, message.yours, text, sizeof text);
    hs->state = BR_HANDSHAKE_FAILED;
    hs->error = -err;
    if (message.reason == BR_REFUSED_SECRET)
        snprintf(text, sizeof text, "it says that we do not know the job's secret (BRAID_SECRET)");
    if (hs->peer == UINT32_MAX)
        return br_error(err, "a link was refused by the peer: %s", text);
    return br_error(err, "rank %u refused the link of rail %u: %s", hs->peer, hs->rail, text);
}

static void handshake_prove(const struct br_handshake *hs, bool as_connector,
                            enum br_handshake_kind kind, struct br_handshake_proof *out)
{
    static const char labels[2][17] = {"braid link taker", "braid link maker"};
    crypto_generichash_state state;

    out->header = handshake_header_of(kind);
    crypto_generichash_init(&state, hs->self.key, sizeof hs->self.key, sizeof out->proof);
    crypto_generichash_update(&state, (const unsigned char *)labels[as_connector], 16);
    crypto_generichash_update(&state, (const unsigned char *)&hs->hello, sizeof hs->hello);
    crypto_generichash_update(&state, (const unsigned char *)&hs->challenge, sizeof hs->challenge);
    crypto_generichash_final(&state, out->proof, sizeof out->proof);
    sodium_memzero(&state, sizeof state);
}

/* true when the message, a proof of the other side, is right. The header is compared too: it is
 * part of the message, and no bit of it may differ. */
static bool proof_right(const struct br_handshake *hs, const void *bytes,
                        enum br_handshake_kind kind)
{
    struct br_handshake_proof right;

    handshake_prove(hs, !hs->connector, kind, &right);
    return sodium_memcmp(&right, bytes, sizeof right) == 0;
}

static uint32_t handshake_smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* false when the peer's limits make no sense. */
static bool handshake_agree(struct br_handshake *hs, const struct br_handshake_limits *theirs)
{
    const struct br_handshake_limits *ours = &hs->self.limits;

    if (!theirs->frame_bytes || !theirs->message_bytes || !theirs->slice_bytes ||
        theirs->eager_bytes < sizeof(struct br_answer))
        return false;
    hs->limits.frame_bytes = handshake_smaller(ours->frame_bytes, theirs->frame_bytes);
    hs->limits.message_bytes = handshake_smaller(ours->message_bytes, theirs->message_bytes);
    hs->limits.eager_bytes = handshake_smaller(ours->eager_bytes, theirs->eager_bytes);
    hs->limits.slice_bytes = handshake_smaller(ours->slice_bytes, theirs->slice_bytes);
    return true;
}

static int receive_hello(struct br_handshake *hs, const void *bytes, void *reply,
                         size_t *reply_bytes)
{
    struct br_handshake_hello *hello = &hs->hello;

    memcpy(hello, bytes, sizeof *hello);
    if (hello->size != hs->self.size)
        return handshake_refuse(hs, BR_REFUSED_SIZE, hs->self.size, hello->size, reply,
                                reply_bytes);
    if (hello->peer != hs->self.rank)
        return handshake_refuse(hs, BR_REFUSED_RANK, hs->self.rank, hello->peer, reply,
                                reply_bytes);
    if (hello->rank == hs->self.rank)
        return handshake_refuse(hs, BR_REFUSED_SELF, hs->self.rank, hello->rank, reply,
                                reply_bytes);
    if (hello->rail >= hs->self.rails)
        return handshake_refuse(hs, BR_REFUSED_RAIL, hs->self.rails, hello->rail, reply,
                                reply_bytes);
    if (hello->rank >= hello->size || !handshake_agree(hs, &hello->limits))
        return handshake_malformed(hs, reply, reply_bytes);
    hs->peer = hello->rank;
    hs->rail = hello->rail;
    hs->incarnation = hello->incarnation;
    hs->version = handshake_smaller(hello->version_max, VERSION_MAX);
    hs->challenge = (struct br_handshake_challenge){
        .header = handshake_header_of(BR_HANDSHAKE_CHALLENGE),
        .version = (uint16_t)hs->version,
        .rank = hs->self.rank,
        .size = hs->self.size,
        .limits = hs->self.limits,
    };
    memcpy(hs->challenge.nonce, hs->self.nonce, sizeof hs->challenge.nonce);
    memcpy(reply, &hs->challenge, sizeof hs->challenge);
    *reply_bytes = sizeof hs->challenge;
    hs->state = BR_HANDSHAKE_AWAIT_PROOF;
    return 0;
}

static int receive_challenge(struct br_handshake *hs, const void *bytes, void *reply,
                             size_t *reply_bytes)
{
    struct br_handshake_challenge *challenge = &hs->challenge;
    struct br_handshake_proof proof;

    memcpy(challenge, bytes, sizeof *challenge);
    if (challenge->version < VERSION_MIN || challenge->version > VERSION_MAX)
        return handshake_refuse(hs, BR_REFUSED_VERSION, VERSION_MAX, challenge->version, reply,
                                reply_bytes);
    if (challenge->size != hs->self.size)
        return handshake_refuse(hs, BR_REFUSED_SIZE, hs->self.size, challenge->size, reply,
                                reply_bytes);
    if (challenge->rank != hs->peer)
        return handshake_refuse(hs, BR_REFUSED_RANK, challenge->rank, hs->peer, reply, reply_bytes);
    if (challenge->reserved || !handshake_agree(hs, &challenge->limits))
        return handshake_malformed(hs, reply, reply_bytes);
    hs->version = challenge->version;
    handshake_prove(hs, true, BR_HANDSHAKE_PROOF, &proof);
    memcpy(reply, &proof, sizeof proof);
    *reply_bytes = sizeof proof;
    hs->state = BR_HANDSHAKE_AWAIT_WELCOME;
    return 0;
}

static int receive_proof(struct br_handshake *hs, const void *bytes, void *reply,
                         size_t *reply_bytes)
{
    struct br_handshake_proof welcome;

    if (!proof_right(hs, bytes, BR_HANDSHAKE_PROOF))
        return handshake_refuse(hs, BR_REFUSED_SECRET, 0, 0, reply, reply_bytes);
    handshake_prove(hs, false, BR_HANDSHAKE_WELCOME, &welcome);
    memcpy(reply, &welcome, sizeof welcome);
    *reply_bytes = sizeof welcome;
    hs->state = BR_HANDSHAKE_READY;
    return 1;
}

static int receive_welcome(struct br_handshake *hs, const void *bytes, void *reply,
                           size_t *reply_bytes)
{
    if (!proof_right(hs, bytes, BR_HANDSHAKE_WELCOME))
        return handshake_refuse(hs, BR_REFUSED_SECRET, 0, 0, reply, reply_bytes);
    hs->state = BR_HANDSHAKE_READY;
    return 1;
}

void br_handshake_init_connector(struct br_handshake *hs, const struct br_handshake_self *self,
                                 uint32_t peer, uint32_t rail, uint32_t incarnation, void *reply,
                                 size_t *reply_bytes)
{
    *hs = (struct br_handshake){
        .state = BR_HANDSHAKE_AWAIT_CHALLENGE,
        .connector = true,
        .self = *self,
        .peer = peer,
        .rail = rail,
        .incarnation = incarnation,
    };
    hs->hello = (struct br_handshake_hello){
        .header = handshake_header_of(BR_HANDSHAKE_HELLO),
        .version_min = VERSION_MIN,
        .version_max = VERSION_MAX,
        .rank = self->rank,
        .size = self->size,
        .peer = peer,
        .rail = rail,
        .incarnation = incarnation,
        .limits = self->limits,
    };
    memcpy(hs->hello.nonce, self->nonce, sizeof hs->hello.nonce);
    memcpy(reply, &hs->hello, sizeof hs->hello);
    *reply_bytes = sizeof hs->hello;
}

void br_handshake_init_acceptor(struct br_handshake *hs, const struct br_handshake_self *self)
{
    *hs =
        (struct br_handshake){.state = BR_HANDSHAKE_AWAIT_HELLO, .self = *self, .peer = UINT32_MAX};
}

/* What each state waits for: one message, of one length. */
static const struct expected {
    enum br_handshake_kind kind;
    size_t bytes;
    int (*receive)(struct br_handshake *hs, const void *bytes, void *reply, size_t *reply_bytes);
} expected[] = {
    [BR_HANDSHAKE_AWAIT_HELLO] = {BR_HANDSHAKE_HELLO, sizeof(struct br_handshake_hello),
                                  receive_hello},
    [BR_HANDSHAKE_AWAIT_CHALLENGE] = {BR_HANDSHAKE_CHALLENGE, sizeof(struct br_handshake_challenge),
                                      receive_challenge},
    [BR_HANDSHAKE_AWAIT_PROOF] = {BR_HANDSHAKE_PROOF, sizeof(struct br_handshake_proof),
                                  receive_proof},
    [BR_HANDSHAKE_AWAIT_WELCOME] = {BR_HANDSHAKE_WELCOME, sizeof(struct br_handshake_proof),
                                    receive_welcome},
};

/* Looks at HELLO's versions before its length, because another version may have a longer one. */
static bool version_shared(const void *hello, size_t n, uint16_t *largest)
{
    uint16_t versions[2];

    *largest = 0;
    if (n < sizeof(struct br_handshake_header) + sizeof versions)
        return false;
    memcpy(versions, (const uint8_t *)hello + sizeof(struct br_handshake_header), sizeof versions);
    *largest = versions[1];
    return versions[0] <= VERSION_MAX && versions[1] >= VERSION_MIN;
}

int br_handshake_receive(struct br_handshake *hs, const void *bytes, size_t n, void *reply,
                         size_t *reply_bytes)
{
    struct br_handshake_header header;
    uint16_t theirs;

    *reply_bytes = 0;
    if (hs->state == BR_HANDSHAKE_FAILED)
        return br_error(-hs->error, "the handshake has failed already");
    if (n < sizeof header)
        return handshake_malformed(hs, reply, reply_bytes);
    memcpy(&header, bytes, sizeof header);
    if (header.magic != BR_HANDSHAKE_MAGIC || header.reserved[0] || header.reserved[1] ||
        header.reserved[2])
        return handshake_malformed(hs, reply, reply_bytes);
    if (header.kind == BR_HANDSHAKE_REFUSE && n == sizeof(struct br_handshake_refuse))
        return handshake_refused(hs, bytes);
    if (hs->state == BR_HANDSHAKE_READY || header.kind != expected[hs->state].kind)
        return handshake_malformed(hs, reply, reply_bytes);
    if (header.kind == BR_HANDSHAKE_HELLO && !version_shared(bytes, n, &theirs))
        return handshake_refuse(hs, BR_REFUSED_VERSION, VERSION_MAX, theirs, reply, reply_bytes);
    if (n != expected[hs->state].bytes)
        return handshake_malformed(hs, reply, reply_bytes);
    return expected[hs->state].receive(hs, bytes, reply, reply_bytes);
}

int br_handshake_refuse_stale(struct br_handshake *hs, uint32_t known, void *reply,
                              size_t *reply_bytes)
{
    return handshake_refuse(hs, BR_REFUSED_STALE, known, hs->incarnation, reply, reply_bytes);
}
