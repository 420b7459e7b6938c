/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a packet, also with a right start and checksum: the parser stays within them, and
 * what it lets through keeps the promises that links rely on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/seal.h"
#include "transport/datagram/packet.h"

static void check(bool ok)
{
    if (!ok)
        abort(); /* a finding */
}

static void check_view(const struct br_dgram_view *view, const uint8_t *bytes, size_t size)
{
    uint64_t below = 0;

    if (view->kind == BR_DGRAM_DATA) {
        check(view->content == bytes + sizeof view->data &&
              view->content_bytes == size - sizeof view->data);
        check(view->data.frame_kind == BR_FRAME_MESSAGE || view->data.frame_kind == BR_FRAME_DATA);
        check(view->content_bytes >= (view->data.part ? 1u : BR_FRAME_INLINE));
        check(view->data.length <= BR_DGRAM_MAX_FRAME);
    } else if (view->kind == BR_DGRAM_ACK) {
        check(view->ack.ranges >= 1 && view->ack.ranges <= BR_DGRAM_RANGES &&
              view->ack.path < BR_DGRAM_PATHS);
        for (unsigned i = 0; i < view->ack.ranges; i++)
            below += (uint64_t)view->ack.range[i].gap + view->ack.range[i].run;
        check(below <= view->ack.top && view->ack.latest && view->ack.latest <= view->ack.top);
    } else if (view->kind != BR_DGRAM_PING && view->kind != BR_DGRAM_CLOSE) {
        check(view->open.size >= BR_DGRAM_MIN_PACKET && view->open.size <= BR_DGRAM_MAX_PACKET);
        check(view->open.paths && view->open.paths <= BR_DGRAM_PATHS);
    }
}

/* Whatever another version sends, an answer is not longer, and finds no link but the one it names.
 */
static void check_other_version(const struct br_dgram_view *view, size_t size)
{
    check(view->header.version != BR_DGRAM_VERSION && size >= sizeof view->open);
    check(view->open.from && (view->kind == BR_DGRAM_OPEN || view->kind == BR_DGRAM_CLOSE));
    check(!view->header.link == (view->kind == BR_DGRAM_OPEN));
}

static void parse(const uint8_t *packet, size_t size)
{
    struct br_dgram_view view;
    int rc = br_dgram_parse(packet, size, &view);

    if (!rc)
        check_view(&view, packet, size);
    else if (rc == -EPROTONOSUPPORT)
        check_other_version(&view, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *packet = malloc(size + 1); /* on the heap: overruns are seen */

    check(packet != NULL);
    memcpy(packet, data, size);
    parse(packet, size);
    if (size >= sizeof(struct br_dgram_data)) {
        fuzz_seal(packet, size); /* the fuzzer need not guess it */
        parse(packet, size);
        fuzz_seal_version(packet, size, data[2]);
        parse(packet, size);
    }
    free(packet);
    return 0;
}
