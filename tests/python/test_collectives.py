# SPDX-License-Identifier: BSD-3-Clause
# ranks: 3
"""Every collective with every type that numpy has, in place and not, against numpy."""
import braid
import numpy as np
import pytest

COUNT = 7


def has_dtype(name):
    try:
        np.dtype(name)
        return True
    except TypeError:
        return False


TYPES = [name for name in braid.types if has_dtype(name)]
REDUCERS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "band": np.bitwise_and, "bor": np.bitwise_or,
            "bxor": np.bitwise_xor, "land": np.logical_and, "lor": np.logical_or, "lxor": np.logical_xor}


def allowed(op, name):
    kind = np.dtype(name).kind
    if op in ("min", "max"):
        return kind != "c"
    if op in ("band", "bor", "bxor", "land", "lor", "lxor"):
        return kind in "iub"
    return op != "avg" or kind != "b"


def values(rank, name, count):
    """Small whole numbers, so that every type holds all sums and products exactly."""
    numbers = (np.arange(count) + rank) % 4
    return (numbers + (1j * rank if np.dtype(name).kind == "c" else 0)).astype(name)


def reduced(op, name, size, count):
    parts = [values(rank, name, count) for rank in range(size)]
    if op == "avg":
        total = sum(part.astype("c16" if parts[0].dtype.kind == "c" else "f8") for part in parts) / size
        return (np.trunc(total) if parts[0].dtype.kind in "iu" else total).astype(name)
    return REDUCERS[op].reduce(parts).astype(name)


@pytest.mark.parametrize("name", TYPES)
def test_allreduce__every_reduction(comm, name):
    for op in braid.reductions:
        if not allowed(op, name):
            continue
        expected = reduced(op, name, comm.size, COUNT)
        x, out = values(comm.rank, name, COUNT), np.empty(COUNT, name)
        comm.allreduce(x, out, op)
        np.testing.assert_allclose(out, expected, rtol=1e-3, err_msg=op)
        assert np.array_equal(x, values(comm.rank, name, COUNT))
        comm.allreduce(x, op=op)
        assert np.array_equal(x, out)


@pytest.mark.parametrize("name", TYPES)
def test_collectives__every_type(comm, name):
    rank, size, last = comm.rank, comm.size, comm.size - 1
    mine = values(rank, name, COUNT)
    all_blocks = np.concatenate([values(r, name, COUNT) for r in range(size)])
    whole = values(rank, name, COUNT * size)
    block = slice(rank * COUNT, (rank + 1) * COUNT)
    sums = reduced("sum", name, size, COUNT * size)[block]

    out = np.empty(COUNT, name)
    comm.reduce_scatter(whole, out)
    assert np.array_equal(out, sums)
    x = whole.copy()
    comm.reduce_scatter(x)
    assert np.array_equal(x[block], sums)

    out = np.empty(COUNT * size, name)
    comm.allgather(mine, out)
    assert np.array_equal(out, all_blocks)
    x = np.zeros(COUNT * size, name)
    x[block] = mine
    comm.allgather(x)
    assert np.array_equal(x, all_blocks)

    out = np.empty(COUNT, name)
    comm.broadcast(mine if rank == last else None, out, root=last)
    assert np.array_equal(out, values(last, name, COUNT))
    x = mine.copy()
    comm.broadcast(x, root=last)
    assert np.array_equal(x, values(last, name, COUNT))

    out, expected = np.zeros(COUNT, name), reduced("sum", name, size, COUNT)
    comm.reduce(mine, out if rank == last else None, root=last)
    assert np.array_equal(out, expected if rank == last else np.zeros(COUNT, name))
    x = mine.copy()
    comm.reduce(x, root=last)
    assert np.array_equal(x, expected if rank == last else mine)

    out = np.empty(COUNT * size, name)
    comm.alltoall(whole, out)
    expected = np.concatenate([values(r, name, COUNT * size)[block] for r in range(size)])
    assert np.array_equal(out, expected)
    x = whole.copy()
    comm.alltoall(x)
    assert np.array_equal(x, expected)

    out = np.zeros(COUNT * size, name)
    comm.gather(mine, out if rank == last else None, root=last)
    assert rank != last or np.array_equal(out, all_blocks)
    x = mine
    if rank == last:
        x = np.zeros(COUNT * size, name)
        x[block] = mine
    comm.gather(x, root=last)
    assert rank != last or np.array_equal(x, all_blocks)

    out = np.empty(COUNT, name)
    comm.scatter(all_blocks if rank == 0 else None, out)
    assert np.array_equal(out, mine)
    x = all_blocks.copy() if rank == 0 else np.empty(COUNT, name)
    comm.scatter(x)
    assert np.array_equal(x[:COUNT], mine)


def test_allreduce__a_type_that_numpy_has_not(comm):
    """bfloat16 is the upper half of a float32."""
    numbers = np.full(9, comm.rank + 1, "f4")
    x = (numbers.view("u4") >> 16).astype("u2")
    comm.allreduce(x, type="bfloat16")
    assert np.array_equal((x.astype("u4") << 16).view("f4"), np.full(9, comm.size * (comm.size + 1) / 2, "f4"))


def test_barrier(comm):
    before = comm.stats().operations
    comm.barrier()
    assert comm.stats().operations == before + 1


@pytest.mark.parametrize("bytes_each", [8, 1 << 20])
def test_operation__later(comm, bytes_each):
    x = comm.empty(bytes_each // 8, "f8")
    x[:] = comm.rank
    h = comm.allreduce(x, wait=False, priority=3, timeout=50)
    h.wait()
    h.wait()  # again is no error
    assert h.test()
    assert np.all(x == sum(range(comm.size)))


def test_operation__many_at_once(comm):
    arrays = [np.full(10 * i + 1, comm.rank, "i8") for i in range(200)]
    handles = [comm.allreduce(x, wait=False) for x in arrays]
    for handle in reversed(handles):
        handle.wait()
    assert all(np.all(x == sum(range(comm.size))) for x in arrays)


def test_operation__persistent(comm):
    x = np.empty(1000, "i4")
    h = comm.allreduce(x, persistent=True, op="max")
    for turn in range(5):
        x[:] = turn + comm.rank
        h.start().wait()
        assert np.all(x == turn + comm.size - 1)
    h.free()
    with pytest.raises(ValueError):
        h.start()


def test_algorithm__of_the_name(comm):
    x = np.ones(100000, "f4")
    comm.allreduce(x, algorithm="ring")
    assert comm.algorithm("allreduce", 1) == "shm" and comm.algorithm("allreduce", 10**7)


def test_split(comm):
    pair = comm.split(0 if comm.rank < 2 else None, key=-comm.rank)
    if comm.rank < 2:
        assert (pair.rank, pair.size) == (1 - comm.rank, 2)
        x = np.array([comm.rank + 1.0])
        pair.allreduce(x)
        assert x[0] == 3
        pair.finalize()
    else:
        assert pair is None
    comm.barrier()


@pytest.mark.parametrize("gap", [0, 2])
def test_vectors(comm, gap):
    """Rank r has r + 1 elements of its own; between the blocks are `gap` elements that nobody touches."""
    rank, size = comm.rank, comm.size
    counts = [r + 1 for r in range(size)]
    places = [sum(counts[:r]) + gap * r for r in range(size)]
    total = places[-1] + counts[-1] + gap
    spread = {"displacements": places} if gap else {}
    blocks = np.full(total, -1.0)
    for r in range(size):
        blocks[places[r] : places[r] + counts[r]] = r
    mine = slice(places[rank], places[rank] + counts[rank])
    own = np.full(rank + 1, float(rank))

    for in_place in False, True:
        x = np.full(total, -1.0)
        x[mine] = rank
        comm.allgatherv(*((x, counts) if in_place else (own, counts, x)), **spread)
        assert np.array_equal(x, blocks)

        x = blocks.copy()
        out = x[mine] if in_place else np.empty(rank + 1)
        comm.reduce_scatterv(x, counts, None if in_place else out, **spread)
        assert np.all(out == rank * size)

        x = np.full(total, -1.0)
        x[mine] = rank
        if rank == 1:
            comm.gatherv(*((x, counts) if in_place else (own, counts, x)), root=1, **spread)
            assert np.array_equal(x, blocks)
        else:
            comm.gatherv(own, root=1)

        out = np.empty(rank + 1)
        if rank == 1:
            comm.scatterv(blocks, counts, None if in_place else out, root=1, **spread)
            out = blocks[mine] if in_place else out
        else:
            comm.scatterv(out, root=1)
        assert np.array_equal(out, own)

    # to rank r go r + 1 elements, so rank + 1 come from each
    sends, out = np.repeat(np.arange(size, dtype="i8"), counts), np.empty(size * (rank + 1), "i8")
    comm.alltoallv(sends, counts, out, [rank + 1] * size)
    assert np.all(out == rank)
    sends = np.arange(size, dtype="i8") + 10 * rank
    comm.alltoallv(sends, [1] * size)
    assert np.array_equal(sends, 10 * np.arange(size) + rank)


def test_vectors__outside_of_the_buffer(comm):
    x = np.zeros(6)
    for call in (lambda: comm.alltoallv(x, [3, 3, 1]), lambda: comm.allgatherv(x, [1, 2]), lambda: comm.allgatherv(x, [1, -1, 1]),
                 lambda: comm.reduce_scatterv(x, [1, 1, 1], displacements=[0, 1, 6]), lambda: comm.alltoallv(x, [1, 1, 1], np.zeros(3))):
        with pytest.raises(ValueError):
            call()


def test_group__made_by_its_members_alone(comm):
    if comm.rank != 1:
        pair = comm.group([2, 0], tag=5)
        assert (pair.rank, pair.size) == (0 if comm.rank == 2 else 1, 2)
        x = np.array([comm.rank])
        pair.allreduce(x)
        assert x[0] == 2
        pair.finalize()
    comm.barrier()


def test_scan(comm):
    for name in "float64", "int16":
        for call, first, last in (comm.scan, 0, comm.rank + 1), (comm.exscan, 0, comm.rank):
            expected = sum((values(r, name, COUNT) for r in range(first, last)), np.zeros(COUNT, name)).astype(name)
            x, out = values(comm.rank, name, COUNT), np.zeros(COUNT, name)
            call(x, out)
            call(x)
            if last:
                assert np.array_equal(out, expected) and np.array_equal(x, expected)


def test_reduction__of_the_program(comm):
    def larger_magnitude(a, b):
        b[:] = np.where(abs(a) > abs(b), a, b)

    mine = comm.reduction(larger_magnitude)
    x = np.array([comm.rank, -comm.rank, 5.0])
    comm.allreduce(x, op=mine)
    assert np.array_equal(x, [comm.size - 1, 1 - comm.size, 5])
    comm.free_reduction(mine)
    x = np.arange(1000, dtype="f4")
    comm.allreduce(x, order="ranks")
    assert np.array_equal(x, comm.size * np.arange(1000))
    with pytest.raises(ValueError, match="ranks"):
        comm.allreduce(x, order="sorted")
