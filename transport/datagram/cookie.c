/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/datagram/cookie.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"

static_assert(BR_DGRAM_COOKIE_BYTES == crypto_shorthash_KEYBYTES, "key of SipHash");
static_assert(sizeof(uint64_t) == crypto_shorthash_BYTES, "a hash is a number");

/* What is hashed. */
struct question {
    uint8_t ip[16]; /* IPv4: the rest is 0 */
    uint64_t peer, period;
    uint16_t port, family;
    uint32_t kind; /* 0: of ours, 1: an answer */
};

static uint64_t cookie_hash(const struct br_dgram_cookies *cookies, const struct question *question)
{
    uint64_t number;

    crypto_shorthash((uint8_t *)&number, (const uint8_t *)question, sizeof *question, cookies->key);
    return number ? number : 1;
}

int br_dgram_cookie_init(struct br_dgram_cookies *cookies)
{
    memset(cookies, 0, sizeof *cookies);
    if (getrandom(cookies->key, sizeof cookies->key, 0) != sizeof cookies->key)
        return br_error(EIO, "no random numbers: %s", strerror(errno));
    return 0;
}

uint64_t br_dgram_cookie_new(struct br_dgram_cookies *cookies)
{
    struct question question = {.peer = ++cookies->made};

    return cookie_hash(cookies, &question);
}

static uint64_t cookie_answer(const struct br_dgram_cookies *cookies,
                              const union br_inet_address *from, uint64_t peer, uint64_t period)
{
    struct question question = {
        .peer = peer, .period = period, .family = from->any.sa_family, .kind = 1};

    if (from->any.sa_family == AF_INET6) {
        memcpy(question.ip, &from->v6.sin6_addr, sizeof question.ip);
        question.port = from->v6.sin6_port;
    } else {
        memcpy(question.ip, &from->v4.sin_addr, sizeof from->v4.sin_addr);
        question.port = from->v4.sin_port;
    }
    return cookie_hash(cookies, &question);
}

uint64_t br_dgram_cookie_answer(const struct br_dgram_cookies *cookies,
                                const union br_inet_address *from, uint64_t peer, uint64_t now)
{
    return cookie_answer(cookies, from, peer, now / BR_DGRAM_COOKIE_PERIOD);
}

bool br_dgram_cookie_good(const struct br_dgram_cookies *cookies, uint64_t number,
                          const union br_inet_address *from, uint64_t peer, uint64_t now)
{
    uint64_t period = now / BR_DGRAM_COOKIE_PERIOD;

    if (number != cookie_answer(cookies, from, peer, period) &&
        (!period || number != cookie_answer(cookies, from, peer, period - 1)))
        return false;
    for (uint32_t i = 0; i < BR_DGRAM_COOKIE_ENDED; i++)
        if (cookies->ended[i] == number)
            return false;
    return true;
}

void br_dgram_cookie_end(struct br_dgram_cookies *cookies, uint64_t number)
{
    cookies->ended[cookies->n_ended++ % BR_DGRAM_COOKIE_ENDED] = number;
}
