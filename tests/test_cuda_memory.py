"""Device memory and copies without a GPU: run in numba's simulator (see tests/cuda_checks.py)."""
from __future__ import annotations

import numpy as np
from cuda_checks import check_in_simulator


def test_in_the_simulator():
    check_in_simulator(__file__, 8)


def check_copies(ops) -> int:
    """Through pinned memory and back, contiguous or not, of several types; the buffers take turns."""
    rng = np.random.default_rng(1)
    arena = ops.new_vector(60)
    matrix = arena[4:44].reshape(5, 8)
    for dtype in (np.float32, np.float64, np.float16):
        given = rng.standard_normal((5, 8)).astype(dtype)
        ops.copy_in(matrix, given)
        np.testing.assert_array_equal(ops.copy_out(matrix), given.astype(np.float32))
    part = rng.standard_normal((5, 3)).astype(np.float32)
    whole = ops.copy_out(matrix)
    ops.copy_in(matrix[:, 2:5], part)
    np.testing.assert_array_equal(ops.copy_out(matrix[:, 2:5]), part)
    whole[:, 2:5] = part
    np.testing.assert_array_equal(ops.copy_out(matrix), whole)
    assert ops.copy_out(matrix[:, 2:5]).flags.c_contiguous
    assert ops.copy_out(arena[:0]).shape == (0,)
    vector = ops.scratch_vector(3)
    ops.copy_in(vector, np.arange(3.0))
    np.testing.assert_array_equal(ops.copy_out(vector), [0, 1, 2])
    return 1


def check_scratch(ops) -> int:
    """The block is replaced at a reset, and then holds what did not fit."""
    ops.reset_scratch()
    generation = ops.workspace.generation
    ops.scratch(7, 9)
    mark = ops.mark_scratch()
    ops.scratch_vector(100)
    ops.release_scratch(mark)
    ops.reset_scratch()
    assert ops.workspace.generation == generation + 1
    first, second = ops.scratch(7, 9), ops.scratch_vector(100)
    assert first.shape == (7, 9) and second.shape == (100,)
    ops.reset_scratch()
    assert ops.scratch(7, 9) is first and ops.workspace.generation == generation + 1
    return 1


def check_tables(memory) -> int:
    """An index table is uploaded once; one that took its place in memory is not taken for it."""
    table = np.arange(5, dtype=np.int32)
    on_device = memory.resident(table)
    assert memory.resident(table) is on_device
    np.testing.assert_array_equal(on_device.copy_to_host(), table)
    assert memory.upload(on_device) is on_device
    known = len(memory._resident)
    del table
    assert len(memory._resident) == known - 1
    assert memory.constant_cell(0.5, "float32") is memory.constant_cell(0.5, "float32")
    return 1


def check_host_is_seen(ops, memory) -> int:
    """What needs the host says so, and is refused while launches are captured."""
    before = memory.host_touches()
    matrix = ops.scratch(2, 2)
    ops.copy_in(matrix, np.ones((2, 2)))
    ops.copy_rows(ops.scratch(2, 2), matrix, np.zeros(2, np.int32), 1.0)
    table_was_new = memory.host_touches()
    ops.copy_out(matrix)
    assert memory.host_touches() == table_was_new + 1 > before + 1
    memory.set_capturing(True)
    for needs_host in (lambda: ops.copy_out(matrix), lambda: ops.upload(np.zeros(2)),
                       lambda: ops.staged(np.zeros(2)).__enter__(), lambda: ops.read_later(matrix),
                       lambda: ops.copy_in(matrix, np.ones((2, 2)))):
        try:
            needs_host()
        except memory.HostNeeded:
            continue
        raise AssertionError("the host was let in")
    memory.set_capturing(False)
    return 1


def check_staging(ops) -> int:
    """Arrays of any type go to the device together, into memory that is used again; numbers come back later."""
    arrays = [np.arange(5, dtype=np.int32), np.zeros(0, np.float32), np.eye(3)[:, ::2], np.array([2**40])]
    for _ in range(2):
        with ops.staged(*arrays) as staged:
            for array, copy in zip(arrays, staged, strict=True):
                assert copy.dtype == array.dtype
                np.testing.assert_array_equal(copy.copy_to_host(), array)
            with ops.staged(np.ones(3)) as (other,):
                np.testing.assert_array_equal(staged[0].copy_to_host(), arrays[0])
            values = [ops.read_later(staged[2]), ops.read_later(other)]
            other.copy_to_device(np.zeros(3))
    np.testing.assert_array_equal(values[0](), arrays[2])
    np.testing.assert_array_equal(values[1](), np.ones(3))
    return 1


def check_results(memory) -> int:
    """Places for sums, read by the host."""
    place = memory.results().place(2)
    place[0], place[1] = 1.5, -2.5
    np.testing.assert_array_equal(memory.results().read(2), [1.5, -2.5])
    return 1


def check_host_arrays_are_refused(ops) -> int:
    """A host matrix would be copied there and back at every launch."""
    from nnet3py.errors import DeviceError

    host = np.zeros((2, 2), np.float32)
    try:
        ops.copy_rows(host, ops.scratch(2, 2), np.zeros(2, np.int32), 1.0)
    except DeviceError as error:
        assert "argument 0 of the GPU kernel copy_rows is a host array" in error.message
        return 1
    raise AssertionError("a host array was taken")


def check_out_of_memory(memory) -> int:
    """The error says what is free, and how much smaller a minibatch must be."""
    from types import SimpleNamespace

    from nnet3py.errors import DeviceError

    def full(shape, dtype):
        raise RuntimeError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")

    module, context = memory.cuda, SimpleNamespace(get_memory_info=lambda: (300 * 2**20, 1000 * 2**20))
    memory.cuda = SimpleNamespace(device_array=full, current_context=lambda: context)
    try:
        assert "about 99 % of the size" in str(memory.out_of_memory(2**20))      # what is free is in pieces
        memory.new_array((1000, 2**18))
    except DeviceError as error:
        assert "has 300 of 1000 MB free, and 1000 MB more are needed" in error.message
        assert "about 30 % of the size would fit; --minibatch-size" in str(error)
        return 1
    finally:
        memory.cuda = module
    raise AssertionError("there was no error")


def simulate() -> int:
    """Run the checks in the simulator; returns their number."""
    from nnet3py.ops import get_ops
    from nnet3py.ops.cuda import memory

    ops = get_ops("cuda")
    return (check_copies(ops) + check_scratch(ops) + check_tables(memory) + check_host_is_seen(ops, memory)
            + check_staging(ops) + check_results(memory) + check_host_arrays_are_refused(ops)
            + check_out_of_memory(memory))


if __name__ == "__main__":
    print(simulate())
