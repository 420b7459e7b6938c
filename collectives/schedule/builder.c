/* SPDX-License-Identifier: BSD-3-Clause */
/* Derives the edges of a schedule from the chunks that its steps read and write: section 7 of
 * doc/design/schedule.md. */
#include "collectives/schedule/builder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "collectives/schedule/builder_internal.h"

struct chunk {
    int32_t writer; /* last step that writes it, or BR_BUILDER_NONE */
    int32_t reader; /* first of a list in readers[], or BR_BUILDER_NONE */
};

struct reader {
    int32_t step, next;
};

/* NULL: INPUT, which nobody writes. In place a chunk of a longer span of INPUT may be OUTPUT. */
static struct chunk *chunk_at(const struct br_builder *b, struct br_span span, uint32_t i)
{
    struct br_span one = {span.buffer, span.first + i, 1};

    if (span.buffer == BR_INPUT)
        one = br_span_alias(&b->head, one);
    return one.buffer == BR_INPUT ? NULL : (struct chunk *)b->chunks[one.buffer].data + one.first;
}

/* Room for `more` further items; NULL and a sticky -ENOMEM when there is none. Counts them in. */
static void *builder_append(struct br_builder *b, struct br_builder_array *array, uint32_t more,
                            size_t size)
{
    if (array->capacity - array->n < more) {
        uint32_t capacity = array->n + more + array->n / 2 + 16;
        void *data = capacity > array->n ? realloc(array->data, capacity * size) : NULL;

        if (!data) {
            b->error = br_error(ENOMEM, "no memory for the schedule of rank %u", b->head.rank);
            return NULL;
        }
        array->data = data;
        array->capacity = capacity;
    }
    array->n += more;
    return (char *)array->data + (array->n - more) * size;
}

static void builder_fail(struct br_builder *b, const char *what)
{
    if (b->error == 0)
        b->error = br_error(EINVAL, "generator of %s: rank %u step %u: %s",
                            br_collective_name(b->head.collective), b->head.rank, b->works.n, what);
}

static void add_chunks(struct br_builder *b, enum br_buffer buffer, uint32_t count)
{
    struct chunk *chunks = builder_append(b, &b->chunks[buffer], count, sizeof *chunks);

    for (uint32_t i = 0; chunks && i < count; i++)
        chunks[i] = (struct chunk){BR_BUILDER_NONE, BR_BUILDER_NONE};
}

int br_builder_new(struct br_builder **builder, enum br_collective collective, uint32_t n,
                   uint32_t rank, uint32_t root, bool in_place)
{
    struct br_builder *b = calloc(1, sizeof *b);

    if (b) {
        b->head = (struct br_schedule){.collective = collective,
                                       .n = n,
                                       .rank = rank,
                                       .root = root,
                                       .in_place = in_place,
                                       .by_block = true,
                                       .packed = 1};
        b->sends = calloc(n, sizeof *b->sends);
        b->recvs = calloc(n, sizeof *b->recvs);
    }
    if (!b || !b->sends || !b->recvs) {
        br_builder_finish(b, NULL);
        return br_error(ENOMEM, "no memory for the schedule of rank %u", rank);
    }
    *builder = b;
    return 0;
}

const struct br_schedule *br_builder_schedule(const struct br_builder *b)
{
    return &b->head;
}

void br_builder_set_pieces(struct br_builder *b, uint32_t pieces)
{
    uint64_t chunks =
        (uint64_t)br_collective_blocks(b->head.collective, b->head.n, BR_OUTPUT) * pieces;

    b->head.pieces = pieces;
    if (chunks == 0 || chunks > INT32_MAX)
        builder_fail(b, "a buffer has none or too many chunks");
    else
        add_chunks(b, BR_OUTPUT, (uint32_t)chunks);
}

void br_builder_set_packed(struct br_builder *b, uint32_t blocks)
{
    if (b->head.pieces != 1 || blocks < 1 || blocks > BR_BUILDER_PACKED_MAX)
        builder_fail(b, "only whole blocks are packed, and not too many");
    else
        b->head.packed = blocks;
}

void br_builder_set_uncut(struct br_builder *b, uint32_t blocks)
{
    if (blocks < 1 || blocks > BR_BUILDER_PACKED_MAX)
        builder_fail(b, "too many blocks are packed");
    b->head.packed = blocks;
    b->head.uncut = true;
}

void br_builder_set_ordered(struct br_builder *b)
{
    b->head.follows = true;
}

struct br_span br_builder_scratch(struct br_builder *b, uint32_t count)
{
    struct br_span span = {BR_SCRATCH, b->head.n_scratch, count};

    if (b->error == 0)
        add_chunks(b, BR_SCRATCH, count);
    if (b->error == 0)
        b->head.n_scratch += count;
    return span;
}

/* Says in `held` what a span of a user buffer holds. */
static void note_held(const struct br_builder *b, struct br_span span, struct br_step *held)
{
    held->piece = b->head.uncut ? 0 : span.first % b->head.pieces; /* they are all alike */
    held->block = span.first / b->head.pieces;
    held->sized_by = (uint8_t)span.buffer;
}

/* Says in `held` what a span read holds: the first piece, and its block. Scratch must be read as it
 * was written, unless it has no gaps. */
static void find_held(struct br_builder *b, struct br_span span, struct br_step *held)
{
    int32_t writer;
    const struct br_step *step;

    held->piece = 0;
    if (span.buffer != BR_SCRATCH) {
        note_held(b, span, held);
        return;
    }
    writer = chunk_at(b, span, 0)->writer;
    for (uint32_t i = 0; i < span.count; i++) {
        int32_t also = chunk_at(b, span, i)->writer;

        if (also == BR_BUILDER_NONE || (also != writer && !br_schedule_even(&b->head))) {
            builder_fail(b, "scratch is read that no step has written in one");
            return;
        }
    }
    step = &br_builder_work_at(b, (uint32_t)writer)->step;
    held->block = step->block;
    held->sized_by = step->sized_by;
    if (br_schedule_even(&b->head))
        return;
    if (step->span.first != span.first || step->span.count != span.count)
        builder_fail(b, "scratch is read by another span than it was written");
    held->piece = step->piece;
}

/* Step `last` waits for the end of step `before`. */
static void builder_need(struct br_builder *b, uint32_t last, int32_t before)
{
    struct br_builder_work *work = br_builder_work_at(b, (uint32_t)before);
    uint32_t *place;

    if (work->mark == last + 1)
        return;
    work->mark = last + 1;
    place = builder_append(b, &b->needs, 1, sizeof *place);
    if (place) {
        *place = (uint32_t)before;
        br_builder_work_at(b, last)->n_needs++;
    }
}

static void need_writers(struct br_builder *b, uint32_t last, struct br_span span)
{
    for (uint32_t i = 0; i < span.count; i++) {
        const struct chunk *chunk = chunk_at(b, span, i);

        if (chunk && chunk->writer != BR_BUILDER_NONE)
            builder_need(b, last, chunk->writer);
    }
}

/* Returns whether one of the readers is a SEND. */
static bool need_readers(struct br_builder *b, uint32_t last, struct br_span span)
{
    const struct reader *readers = b->readers.data;
    bool sends = false;

    for (uint32_t i = 0; i < span.count; i++) {
        const struct chunk *chunk = chunk_at(b, span, i);

        if (chunk->reader == BR_BUILDER_NONE && chunk->writer != BR_BUILDER_NONE)
            builder_need(b, last, chunk->writer);
        for (int32_t r = chunk->reader; r != BR_BUILDER_NONE; r = readers[r].next) {
            builder_need(b, last, readers[r].step);
            sends |= br_builder_work_at(b, (uint32_t)readers[r].step)->step.kind == BR_STEP_SEND;
        }
    }
    return sends;
}

/* Drops the dependencies of the last step that another of its dependencies already implies. */
static void builder_trim(struct br_builder *b, struct br_builder_work *last)
{
    uint32_t *needs = b->needs.data, kept = 0;

    if (last->n_needs < 2)
        return;
    for (uint32_t i = 0; i < last->n_needs; i++) {
        const struct br_builder_work *v = br_builder_work_at(b, needs[last->first_need + i]);

        for (uint32_t j = 0; j < v->n_needs; j++)
            br_builder_work_at(b, needs[v->first_need + j])->mark = 0;
    }
    for (uint32_t i = 0; i < last->n_needs; i++) {
        uint32_t u = needs[last->first_need + i];

        if (br_builder_work_at(b, u)->mark != 0)
            needs[last->first_need + kept++] = u;
    }
    b->needs.n -= last->n_needs - kept;
    last->n_needs = kept;
}

static bool is_given(const struct br_builder *b, struct br_span span)
{
    for (uint32_t i = 0; i < span.count; i++) {
        const struct chunk *chunk = chunk_at(b, span, i);

        if (span.buffer == BR_SCRATCH || (chunk && chunk->writer != BR_BUILDER_NONE))
            return false;
    }
    return true;
}

static void note_read(struct br_builder *b, uint32_t last, struct br_span span)
{
    for (uint32_t i = 0; i < span.count; i++) {
        struct chunk *chunk = chunk_at(b, span, i);
        struct reader *reader;

        if (!chunk)
            continue;
        reader = builder_append(b, &b->readers, 1, sizeof *reader);
        if (!reader)
            return;
        *reader = (struct reader){(int32_t)last, chunk->reader};
        chunk->reader = (int32_t)(b->readers.n - 1);
    }
}

static void note_write(struct br_builder *b, uint32_t last, struct br_span span)
{
    for (uint32_t i = 0; i < span.count; i++)
        *chunk_at(b, span, i) = (struct chunk){(int32_t)last, BR_BUILDER_NONE};
}

/* Tells the RECVs that filled a scratch span who reads it. Returns the step of the one, or
 * BR_BUILDER_NONE when none did or several. */
static int32_t note_mapping(struct br_builder *b, const struct br_step *reader, struct br_span span,
                            bool waits_send)
{
    int32_t one = BR_BUILDER_NONE;

    for (uint32_t i = 0; i < span.count && span.buffer == BR_SCRATCH; i++) {
        int32_t writer = chunk_at(b, span, i)->writer;
        struct br_builder_work *work = br_builder_work_at(b, (uint32_t)writer);
        bool whole = work->step.span.first == span.first && work->step.span.count == span.count;

        if (work->step.kind != BR_STEP_RECV)
            continue;
        work->reduced = true;
        if (reader->kind != BR_STEP_REDUCE || waits_send || br_span_overlap(reader->span, span) ||
            !whole)
            work->unmappable = true;
        if (whole)
            one = writer;
    }
    return one;
}

/* Checks the spans of a step and finds which pieces of which block they hold; false on a fault. */
static bool builder_check(struct br_builder *b, struct br_step *step, const struct br_span *sources,
                          uint32_t n_sources)
{
    bool write = step->kind != BR_STEP_SEND;
    const char *fault = br_span_fault(&b->head, step->span, write);
    struct br_step source;

    if (!fault && step->kind == BR_STEP_SEND)
        find_held(b, step->span, step);
    if (!fault && write && step->span.buffer != BR_SCRATCH)
        note_held(b, step->span, step);
    else if (!fault && n_sources > 0 && !(fault = br_span_fault(&b->head, sources[0], false)))
        find_held(b, sources[0], step);
    for (uint32_t i = 0; !fault && b->error == 0 && i < n_sources; i++) {
        fault = br_span_fault(&b->head, sources[i], false);
        if (!fault)
            find_held(b, sources[i], &source);
        if (!fault && (sources[i].count != step->span.count || source.piece != step->piece))
            fault = "a source has other pieces than the destination";
        if (!fault && br_span_overlap(sources[i], step->span) &&
            sources[i].first != step->span.first)
            fault = "a source overlaps the destination in part";
    }
    if (step->kind <= BR_STEP_RECV && (step->peer >= b->head.n || step->peer == b->head.rank))
        fault = "there is no such peer";
    if (step->kind <= BR_STEP_RECV && br_schedule_even(&b->head) &&
        step->span.count > b->head.packed)
        fault = "a message holds more blocks than announced";
    if (fault)
        builder_fail(b, fault);
    return b->error == 0;
}

/* Appends a step; its spans are under their names in place. */
static void builder_add(struct br_builder *b, struct br_step step, const struct br_span *sources,
                        uint32_t n_sources)
{
    uint32_t last = b->works.n;
    struct br_builder_work *work;
    struct br_source *place;
    bool waits_send = false;

    if (b->error != 0 || !builder_check(b, &step, sources, n_sources))
        return;
    if (step.sized_by == BR_SCRATCH || b->head.packed > 1)
        b->head.by_block = false;
    step.first_source = b->sources.n;
    step.n_sources = n_sources;
    work = builder_append(b, &b->works, 1, sizeof *work);
    place = n_sources > 0 ? builder_append(b, &b->sources, n_sources, sizeof *place) : NULL;
    if (b->error != 0)
        return;
    *work = (struct br_builder_work){.step = step, .first_need = b->needs.n};
    if (step.kind == BR_STEP_SEND)
        need_writers(b, last, step.span);
    for (uint32_t i = 0; i < n_sources; i++)
        need_writers(b, last, sources[i]);
    if (step.kind != BR_STEP_SEND)
        waits_send = need_readers(b, last, step.span);
    builder_trim(b, work);
    if (step.kind == BR_STEP_SEND) {
        note_mapping(b, &step, step.span, false);
        note_read(b, last, step.span);
    }
    for (uint32_t i = 0; i < n_sources; i++) {
        place[i] = (struct br_source){sources[i], note_mapping(b, &step, sources[i], waits_send),
                                      is_given(b, sources[i])};
        note_read(b, last, sources[i]);
    }
    if (step.kind != BR_STEP_SEND)
        note_write(b, last, step.span);
}

static struct br_span builder_alias(const struct br_builder *b, struct br_span span)
{
    return br_span_alias(&b->head, span);
}

/* A SEND or a RECV. like: where scratch is received into, a span of a user buffer with what the
 * message holds. */
static void builder_message(struct br_builder *b, enum br_step_kind kind, uint32_t peer,
                            uint8_t level, struct br_span span, struct br_span like)
{
    struct br_step step = {.kind = (uint8_t)kind, .level = level, .peer = peer, .span = span};

    if (b->head.pieces)
        note_held(b, like, &step);
    if (peer < b->head.n)
        step.match = kind == BR_STEP_SEND ? b->sends[peer]++ : b->recvs[peer]++;
    builder_add(b, step, NULL, 0);
}

void br_builder_send(struct br_builder *b, uint32_t peer, uint8_t level, struct br_span span)
{
    span = builder_alias(b, span);
    builder_message(b, BR_STEP_SEND, peer, level, span, span);
}

void br_builder_recv(struct br_builder *b, uint32_t peer, uint8_t level, struct br_span span)
{
    span = builder_alias(b, span);
    builder_message(b, BR_STEP_RECV, peer, level, span, span);
}

struct br_span br_builder_recv_scratch(struct br_builder *b, uint32_t peer, uint8_t level,
                                       struct br_span like)
{
    struct br_span span = br_builder_scratch(b, like.count);

    if (like.buffer == BR_SCRATCH)
        builder_fail(b, "the pieces of a message are told by a span of a user buffer");
    builder_message(b, BR_STEP_RECV, peer, level, span, builder_alias(b, like));
    return span;
}

void br_builder_reduce(struct br_builder *b, struct br_span span, const struct br_span *sources,
                       uint32_t n_sources, bool final)
{
    struct br_step step = {
        .kind = BR_STEP_REDUCE, .flags = final ? BR_STEP_FINAL : 0, .span = builder_alias(b, span)};
    struct br_span *names = malloc((n_sources + (size_t)1) * sizeof *names);

    if (!names) {
        b->error = br_error(ENOMEM, "no memory for the schedule of rank %u", b->head.rank);
        return;
    }
    if (n_sources == 0)
        builder_fail(b, "a reduction of nothing");
    for (uint32_t i = 0; i < n_sources; i++)
        names[i] = builder_alias(b, sources[i]);
    builder_add(b, step, names, n_sources);
    free(names);
}

void br_builder_copy(struct br_builder *b, struct br_span span, struct br_span source)
{
    span = builder_alias(b, span);
    source = builder_alias(b, source);
    if (span.buffer != source.buffer || span.first != source.first || span.count != source.count)
        builder_add(b, (struct br_step){.kind = BR_STEP_COPY, .span = span}, &source, 1);
}

int br_builder_finish(struct br_builder *b, struct br_schedule **schedule)
{
    int error = b ? b->error : 0;

    if (!b)
        return error;
    if (schedule && error == 0) {
        *schedule = br_builder_compact(b);
        if (!*schedule)
            error = br_error(ENOMEM, "no memory for the schedule of rank %u", b->head.rank);
    }
    for (unsigned i = 0; i < BR_BUFFERS; i++)
        free(b->chunks[i].data);
    free(b->works.data);
    free(b->sources.data);
    free(b->needs.data);
    free(b->readers.data);
    free(b->sends);
    free(b->recvs);
    free(b);
    return error;
}
