/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a packet, also with a right start and checksum: the parser stays within them, and
 * what it lets through keeps the promises that links rely on. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *packet = malloc(size + 1); /* on the heap: overruns are seen */
    struct br_dgram_view view;

    check(packet != NULL);
    memcpy(packet, data, size);
    if (!br_dgram_parse(packet, size, &view))
        check_view(&view, packet, size);
    if (size >= sizeof(struct br_dgram_data)) {
        fuzz_seal(packet, size); /* the fuzzer need not guess it */
        if (!br_dgram_parse(packet, size, &view))
            check_view(&view, packet, size);
    }
    free(packet);
    return 0;
}
