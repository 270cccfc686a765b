"""The convolution's model and computation: checks, files, compilation; what it computes is in the component's tests."""
from __future__ import annotations

import numpy as np
import pytest
from component_cases import read_text
from io_samples import object_bytes

from nnet3py.components.convolution_geometry import (
    ConvolutionComputation,
    ConvolutionModel,
    compile_convolution,
    convolution_grid,
)
from nnet3py.errors import CompileError, FormatError
from nnet3py.index import NO_TIME

MEGABYTES = 200.0


def model(offsets, required=None, filters=(2, 3), heights=(4, 4), subsample: int = 1) -> ConvolutionModel:
    times = sorted({time for time, _ in offsets})
    return ConvolutionModel(*filters, *heights, subsample, np.array(offsets, np.int32).reshape(-1, 2),
                            np.array(times if required is None else required, np.int32))


def product(times, heights) -> list[tuple[int, int]]:
    return [(time, height) for time in times for height in heights]


def rows_at(times, num_sequences: int = 2) -> np.ndarray:
    return np.array([(n, t, 0) for t in times for n in range(num_sequences)], np.int32)


def compiled(of: ConvolutionModel, outputs: np.ndarray, inputs: np.ndarray | None = None,
             max_memory_mb: float = MEGABYTES) -> ConvolutionComputation:
    if inputs is None:
        times = np.unique(outputs[:, 1][:, None] + of.time_offsets)
        inputs = rows_at(times.tolist())
    return compile_convolution(of, convolution_grid(of, inputs, outputs), max_memory_mb)


def brute_force_fault(of: ConvolutionModel) -> bool:
    """Whether the heights of a model do not go together, by looking at each pair of output height and offset."""
    inputs = of.height_subsample_out * np.arange(of.height_out)[:, None] + of.offsets[:, 1]
    inside = (inputs >= 0) & (inputs < of.height_in)
    required = np.isin(of.offsets[:, 0], of.required_time_offsets)
    return not (inside.any(axis=0).all() and inside[:, required].any(axis=1).all())


def brute_force_unused(of: ConvolutionModel) -> int | None:
    inputs = of.height_subsample_out * np.arange(of.height_out)[:, None] + of.offsets[:, 1]
    unused = sorted(set(range(of.height_in)) - set(inputs.ravel().tolist()))
    return unused[0] if unused else None


def test_heights_against_brute_force():
    rng, faults, unused = np.random.default_rng(0), 0, 0
    for _ in range(600):
        offsets = sorted({(int(time), int(height)) for time, height in
                          zip(rng.integers(0, 2, 3), rng.integers(-3, 6, 3), strict=True)})
        times = sorted({time for time, _ in offsets})
        required = times[:int(rng.integers(1, len(times) + 1))]
        found = model(offsets, required, heights=tuple(rng.integers(1, 7, 2).tolist()),
                      subsample=int(rng.integers(1, 4)))
        assert (found.fault() is not None) == brute_force_fault(found), found
        if found.fault() is None:
            assert found.unused_height() == brute_force_unused(found)
            unused += found.unused_height() is not None
        faults += found.fault() is not None
    assert 100 < faults < 550 and unused > 20       # all outcomes were met


@pytest.mark.parametrize("found, message", [
    (model([(0, 0)], filters=(0, 3)), "must be above 0"),
    (model([(0, 0)], heights=(4, -1)), "must be above 0"),
    (model([(0, 0)], filters=(2**20, 3), heights=(2**20, 4)), "at most 16777216 wide"),
    (model([(0, 0)], subsample=0), "must be above 0"),
    (model([(0, 0)], [1]), "must be some of the time offsets"),
    (model([(0, 0), (1, 0)], [1, 0]), "in rising order"),
    (model([(0, 0)], []), "required time offsets"),
    (model([], []), "required time offsets"),
    (model([(0, 0), (0, 0)]), "each once"),
    (model([(0, 1), (0, 0)]), "in rising order"),
    (model([(2**30, 0)]), "time offsets must lie"),
    (model([(0, 0), (1, 4)]), "the offset 1,4 reaches no input height"),
    (model([(0, 0), (1, -2)], [1]), "output height 0 sees only zero padding"),
    (model([(0, 0)], heights=(4, 6)), "output height 4 sees only zero padding")])
def test_impossible_models(found, message):
    assert message in found.fault()


def test_what_a_model_says_of_itself():
    found = model(product((-2, 0, 4), (-1, 0)), [0], subsample=1)
    assert found.fault() is None and found.unused_height() is None
    assert (found.input_dim, found.output_dim, found.param_cols) == (8, 12, 12)
    assert found.time_offsets.tolist() == [-2, 0, 4] and found.time_modulus == 2
    assert model([(3, 0)]).time_modulus == 0
    assert found.info() == ("num-filters-in=2, num-filters-out=3, height-in=4, height-out=4, height-subsample-out=1, "
                            "{time,height}-offsets=[-2,-1 -2,0 0,-1 0,0 4,-1 4,0], required-time-offsets=[0], "
                            "input-dim=8, output-dim=12")


MODEL_TEXT = (b"<ConvolutionModel> <NumFiltersIn> 2 <NumFiltersOut> 3 <HeightIn> 4 <HeightOut> 2 "
              b"<HeightSubsampleOut> 2 <Offsets> [ -1,0 0,0 0,1 ]\n<RequiredTimeOffsets> [ 0 ]\n</ConvolutionModel> ")


def test_model_files():
    found = read_text(ConvolutionModel, MODEL_TEXT)
    assert object_bytes(found, False) == MODEL_TEXT
    binary = object_bytes(found, True)
    assert object_bytes(read_text(ConvolutionModel, b"\0B" + binary), True) == binary
    untagged = read_text(ConvolutionModel, MODEL_TEXT.replace(b"<ConvolutionModel> ", b""))
    assert object_bytes(untagged, False) == MODEL_TEXT


@pytest.mark.parametrize("damage", [
    (b"<NumFiltersIn> 2", b"<NumFiltersIn> 0"), (b"<NumFiltersOut> 3", b"<NumFiltersOut> -3"),
    (b"<HeightIn> 4", b"<HeightIn> 2000000000"), (b"<HeightOut> 2", b"<HeightOut> 9"),
    (b"<HeightSubsampleOut> 2", b"<HeightSubsampleOut> 0"), (b"-1,0 0,0", b"0,0 -1,0"), (b"-1,0 0,0", b"0,0 0,0"),
    (b"-1,0 0,0 0,1", b""), (b"0,1", b"0;1"), (b"[ 0 ]", b"[ 7 ]"), (b"[ 0 ]", b"[ ]"), (b"<HeightIn>", b"<Height>"),
    (b"</ConvolutionModel>", b"</Model>")])
def test_damaged_models(damage):
    assert damage[0] in MODEL_TEXT
    with pytest.raises(FormatError):
        read_text(ConvolutionModel, MODEL_TEXT.replace(*damage, 1))


COMPUTATION_TEXT = (
    b"<ConvComputation> <NumFiltersInOut> 1 1 <HeightInOut> 2 1 <NumTInOut> 3 2 <NumImages> 2 <TempRowsCols> 4 1 "
    b"<NumSteps> 2 <TimeShift> 0 <ParamsStartCol> 0 <HeightMap> [ 0 1 ]\n"
    b"<TimeShift> 1 <ParamsStartCol> 2 <HeightMap> [ 1 ]\n</ConvComputation> ")


def test_computation_files():
    found = read_text(ConvolutionComputation, COMPUTATION_TEXT)
    assert object_bytes(found, False) == COMPUTATION_TEXT
    assert found.needs_copy == [False, True] and found.max_param_col == 3 and found.times_per_chunk == 2
    binary = object_bytes(found, True)
    assert object_bytes(read_text(ConvolutionComputation, b"\0B" + binary), True) == binary
    assert read_text(ConvolutionComputation, COMPUTATION_TEXT.replace(b"<ConvComputation> ", b"")).num_images == 2


@pytest.mark.parametrize("damage", [
    (b"<NumFiltersInOut> 1 1", b"<NumFiltersInOut> 1 0"), (b"<NumTInOut> 3 2", b"<NumTInOut> 3 4"),
    (b"<NumTInOut> 3 2", b"<NumTInOut> 3 1"), (b"<NumImages> 2", b"<NumImages> 0"),
    (b"<TempRowsCols> 4 1", b"<TempRowsCols> 3 1"), (b"<TempRowsCols> 4 1", b"<TempRowsCols> 6 1"),
    (b"<TempRowsCols> 4 1", b"<TempRowsCols> 0 1"), (b"<TempRowsCols> 4 1", b"<TempRowsCols> 4 2"),
    (b"<NumSteps> 2", b"<NumSteps> 2000000000"), (b"<NumSteps> 2", b"<NumSteps> -1"),
    (b"<NumSteps> 2", b"<NumSteps> 1"),
    (b"<TimeShift> 1", b"<TimeShift> 2"), (b"<TimeShift> 1", b"<TimeShift> 0"), (b"<TimeShift> 0", b"<TimeShift> -1"),
    (b"<ParamsStartCol> 2", b"<ParamsStartCol> -2"), (b"[ 1 ]", b"[ 2 ]"), (b"[ 1 ]", b"[ -1 ]"),
    (b"[ 1 ]", b"[ -2 ]"), (b"[ 1 ]", b"[ ]"), (b"</ConvComputation>", b"</Conv>")])
def test_damaged_computations(damage):
    assert damage[0] in COMPUTATION_TEXT
    with pytest.raises(FormatError):
        read_text(ConvolutionComputation, COMPUTATION_TEXT.replace(*damage, 1))


def test_steps_without_subsampling():
    found = compiled(model(product((-1, 0, 1), (-1, 0, 1))), rows_at(range(5)))
    assert (found.height_in, found.num_t_in, found.num_t_out, found.num_images) == (4, 7, 5, 2)
    assert [(step.time_shift, step.params_start_col) for step in found.steps] == [(0, 0), (1, 6), (2, 12)]
    assert found.steps[2].height_map.tolist() == [-1, 0, 1, 0, 1, 2, 1, 2, 3, 2, 3, -1]
    assert (found.temp_rows, found.temp_cols) == (10, 24)


def test_steps_with_time_subsampling():
    """Three input times stand side by side in a row: at t = -1, 0, 1, then 2, 3, 4 and so on."""
    of = model([(-1, 0), (0, 0), (2, 0)], heights=(2, 2))
    grid = convolution_grid(of, rows_at((-1, 0, 2, 3, 5)), rows_at((0, 3)))
    assert (grid.start_in, grid.step_in, grid.num_in, grid.reorder_in) == (-1, 1, 9, 3)
    found = compile_convolution(of, grid, MEGABYTES)
    assert (found.height_in, found.num_t_in, found.num_t_out) == (6, 3, 2)
    assert [(step.time_shift, step.params_start_col) for step in found.steps] == [(0, 0), (1, 4)]
    assert [step.height_map.tolist() for step in found.steps] == [[0, 2, 1, 3], [0, 1]]
    assert grid.input_rows(rows_at((-1, 0, 2, 3, 5)))[:4, 1].tolist() == [-1, 0, NO_TIME, -1]


def test_whole_rows_need_no_temporary_matrix():
    found = compiled(model(product((-1, 0), (0,))), rows_at(range(3)))
    assert found.needs_copy == [False, False] and (found.temp_rows, found.temp_cols) == (0, 0)
    assert found.times_per_chunk == 3


@pytest.mark.parametrize("megabytes, rows", [
    (200.0, 20), (4 * 20 * 24e-6 * 1.001, 20), (4 * 20 * 24e-6 * 0.999, 10), (4 * 20 * 24e-6 / 2.5, 8), (1e-30, 2)])
def test_memory_limit(megabytes, rows):
    found = compiled(model(product((-1, 0, 1), (-1, 0, 1))), rows_at(range(10)), max_memory_mb=megabytes)
    assert (found.temp_rows, found.temp_cols) == (rows, 24) and found.fault() is None


def test_a_limit_that_cannot_be_kept_is_reported(caplog):
    compiled(model(product((-1, 0, 1), (-1, 0, 1))), rows_at(range(10)), max_memory_mb=1e-6)
    assert "max-memory-mb=1e-06" in caplog.text


def test_missing_frames_at_the_edges_become_padding():
    of = model(product((-3, 0, 3), (0,)), [0])
    inputs = rows_at(range(3))
    grid = convolution_grid(of, inputs, rows_at(range(3)))
    assert (grid.start_in, grid.step_in, grid.num_in) == (-3, 1, 9)
    times = grid.input_rows(inputs)[::2, 1]
    assert times.tolist() == [NO_TIME] * 3 + [0, 1, 2] + [NO_TIME] * 3
    assert [step.time_shift for step in compile_convolution(of, grid, MEGABYTES).steps] == [0, 3, 6]


@pytest.mark.parametrize("inputs, outputs, message", [
    ((-2, -1, 0, 1), (0,), "go from t=-2 to 1"), ((-1, 0, 1, 2), (0,), "go from t=-1 to 2"),
    ((0, 1), (0,), "time -1 is required but not in the input"),
    ((-1, 1, 3), (0, 2), "time 0 is required")])
def test_inputs_that_do_not_fit(inputs, outputs, message):
    with pytest.raises(CompileError, match=message):
        convolution_grid(model(product((-1, 0, 1), (0,))), rows_at(inputs), rows_at(outputs))
