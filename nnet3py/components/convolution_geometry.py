"""The geometry of a convolution over time and height, and its compilation into steps for given rows.

A row of input holds ``height_in`` heights of ``num_filters_in`` filters each, the filter varying fastest; a row of
output likewise. Kaldi: ``convolution.h``, ``ConvolutionModel`` and ``ConvolutionComputation``.
"""
from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.components.fields import LARGEST_DIM, Field, InFiles, read_dim
from nnet3py.components.time_grid import TimeGrid
from nnet3py.errors import CompileError

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader, TokenWriter

logger = logging.getLogger(__name__)
f32 = np.float32


@dataclass
class ConvolutionModel(InFiles):
    """Geometry of a convolution over time and height.

    y[t, h] = sum over offsets (time, height) of W[offset] x[t + time, height_subsample_out * h + height], where x is 0
    for heights outside the input.
    """

    FIELDS = (Field("<NumFiltersIn>", "dim", "num_filters_in"), Field("<NumFiltersOut>", "dim", "num_filters_out"),
              Field("<HeightIn>", "dim", "height_in"), Field("<HeightOut>", "dim", "height_out"),
              Field("<HeightSubsampleOut>", "dim", "height_subsample_out"),
              Field("<Offsets>", "integer_pairs", "offsets"),
              Field("<RequiredTimeOffsets>", "integer_vector", "required_time_offsets"))

    num_filters_in: int
    num_filters_out: int
    height_in: int
    height_out: int
    height_subsample_out: int
    offsets: np.ndarray    # int32 (P, 2), pairs (time, height), each once, in rising order
    # int32, rising, times of ``offsets`` at which the input must exist to compute an output
    required_time_offsets: np.ndarray

    @property
    def input_dim(self) -> int:
        """Number of columns of the input."""
        return self.num_filters_in * self.height_in

    @property
    def output_dim(self) -> int:
        """Number of columns of the output."""
        return self.num_filters_out * self.height_out

    @property
    def param_cols(self) -> int:
        """Number of columns of the parameter matrix, which has the input filters of each offset."""
        return self.num_filters_in * len(self.offsets)

    @cached_property
    def time_offsets(self) -> np.ndarray:
        """Distinct times of the offsets, int32, rising."""
        return np.unique(self.offsets[:, 0])

    @cached_property
    def time_modulus(self) -> int:
        """Greatest common divisor of the distances between time offsets; 0 if there is only one."""
        return int(np.gcd.reduce(np.diff(self.time_offsets.astype(np.int64)))) if self.time_offsets.size > 1 else 0

    def fault(self) -> str | None:
        """Return the reason why this model is invalid, or None. Kaldi: Check."""
        sizes = (self.num_filters_in, self.num_filters_out, self.height_in, self.height_out, self.height_subsample_out)
        if min(sizes) <= 0 or max(self.input_dim, self.output_dim, *sizes) > LARGEST_DIM:
            return f"numbers of filters, heights and subsampling must be above 0, and rows at most {LARGEST_DIM} wide"
        if not (_rising(self.required_time_offsets) and np.isin(self.required_time_offsets, self.time_offsets).all()):
            return (f"required time offsets {self.required_time_offsets.tolist()} must be some of the time offsets "
                    f"{self.time_offsets.tolist()}, in rising order")
        if not _rising(self.offsets[:, 0].astype(np.int64) * 2**32 + self.offsets[:, 1]):
            return "offsets (time, height) must be given, each once, in rising order"
        if np.abs(self.offsets[:, 0].astype(np.int64)).max() > LARGEST_DIM:
            return f"time offsets must lie between -{LARGEST_DIM} and {LARGEST_DIM}"
        first, last = self._heights_reached()
        if (first > last).any():
            time, height = self.offsets[np.argmax(first > last)]
            return f"the offset {time},{height} reaches no input height for any output height"
        required = np.isin(self.offsets[:, 0], self.required_time_offsets)
        missed = _first_gap(first[required], last[required], self.height_out)
        return None if missed is None else (
            f"output height {missed} sees only zero padding at the required time offsets; "
            f"input heights are 0..{self.height_in - 1}")

    def unused_height(self) -> int | None:
        """Return the first input height that no output uses, or None if all are used. The model must have no fault."""
        used = np.zeros(self.height_in, dtype=bool)
        step = self.height_subsample_out
        reached = np.unique(np.column_stack([self.offsets[:, 1], *self._heights_reached()]), axis=0)
        for height, first, last in reached.tolist():
            used[height + step * first:height + step * last + 1:step] = True
        return None if used.all() else int(np.argmin(used))

    def _heights_reached(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and last output height at which each offset has input, int64 (P,); first > last: none."""
        height, step = self.offsets[:, 1].astype(np.int64), self.height_subsample_out
        return np.maximum(-(height // step), 0), np.minimum((self.height_in - 1 - height) // step, self.height_out - 1)

    def check_read(self, reader: TokenReader) -> None:
        fault = self.fault()
        if fault is not None:
            raise reader.error(f"impossible convolution: {fault}")

    def info(self) -> str:
        """Return the fields that describe the model in the information text. Kaldi: ConvolutionModel::Info."""
        offsets = " ".join(f"{time},{height}" for time, height in self.offsets.tolist())
        required = ",".join(map(str, self.required_time_offsets.tolist()))
        return (f"num-filters-in={self.num_filters_in}, num-filters-out={self.num_filters_out}, "
                f"height-in={self.height_in}, height-out={self.height_out}, "
                f"height-subsample-out={self.height_subsample_out}, {{time,height}}-offsets=[{offsets}], "
                f"required-time-offsets=[{required}], input-dim={self.input_dim}, output-dim={self.output_dim}")


def _rising(values: np.ndarray) -> bool:
    return values.size > 0 and bool((values[1:] > values[:-1]).all())


def _first_gap(first: np.ndarray, last: np.ndarray, count: int) -> int | None:
    """Return the first number in 0..count-1 that lies in none of the ranges first[i]..last[i], or None."""
    order = np.argsort(first, kind="stable")
    first = np.append(first[order], count)
    covered = np.maximum.accumulate(np.append(0, last[order] + 1))   # numbers below are covered before range i begins
    gaps = first > covered
    return int(covered[np.argmax(gaps)]) if gaps.any() else None


# -- computation -----------------------------------------------------------------------------------------------------


@dataclass
class ConvolutionStep:
    """Contribution of the offsets of one time: gathered input columns times columns of the parameters."""

    time_shift: int           # input time of the first output time, in rows per sequence
    params_start_col: int     # first column of the parameters
    height_map: np.ndarray    # int32 (height_out * offsets of this time,), input height of each; -1 for padding

    def is_identity(self, height_in: int) -> bool:
        """Return whether the gathered input is the input itself."""
        return self.height_map.size == height_in and bool((self.height_map == np.arange(height_in)).all())


@dataclass
class ConvolutionComputation:
    """Convolution compiled for given rows, as a list of steps.

    Rows of input and output are ordered by time, then sequence (``num_images`` of them). With time subsampling by k
    the input is viewed with k times in each row: ``num_t_in`` is the number of such rows, and ``height_in`` the number
    of heights in each.
    ``temp_rows`` and ``temp_cols`` are the size of the temporary matrix that gathered input columns are copied to.
    """

    num_filters_in: int
    num_filters_out: int
    height_in: int
    height_out: int
    num_t_in: int
    num_t_out: int
    num_images: int
    temp_rows: int
    temp_cols: int
    steps: list[ConvolutionStep]

    def __post_init__(self) -> None:
        self.needs_copy = [not step.is_identity(self.height_in) for step in self.steps]
        self.max_param_col = max((step.params_start_col + self.step_cols(step) for step in self.steps), default=0)

    @property
    def times_per_chunk(self) -> int:
        """Number of output times that are computed at once."""
        return self.temp_rows // self.num_images if self.temp_rows else self.num_t_out

    def step_cols(self, step: ConvolutionStep) -> int:
        """Return the number of columns of the parameters that a step uses."""
        return self.num_filters_in * (step.height_map.size // self.height_out)

    def fault(self) -> str | None:
        """Return the reason why this computation cannot be run, or None. Kaldi: Check."""
        sizes = (self.num_filters_in, self.num_filters_out, self.height_in, self.height_out, self.num_t_out,
                 self.num_images)
        if min(sizes) <= 0 or self.num_t_in < self.num_t_out:
            return "sizes must be above 0, and at least as many times of input as of output"
        shifts = np.array([step.time_shift for step in self.steps], dtype=np.int64)
        if not self.steps or shifts.min() != 0 or shifts.max() != self.num_t_in - self.num_t_out \
                or (np.diff(shifts) == 0).any():
            return (f"time shifts {shifts.tolist()} must differ, and lie between 0 and "
                    f"{self.num_t_in - self.num_t_out}, both included")
        for step in self.steps:
            heights = step.height_map
            if step.params_start_col < 0 or heights.size == 0 or heights.size % self.height_out != 0 \
                    or heights.min() < -1 or not 0 <= heights.max() < self.height_in:
                return (f"a height map must have some entries for each of {self.height_out} heights, from -1 to "
                        f"{self.height_in - 1}, and not be all -1")
        if self.temp_cols != self._temp_cols() or (self.temp_rows > 0) != (self.temp_cols > 0) \
                or self.temp_rows % self.num_images != 0 or not 0 <= self.temp_rows <= self.num_t_out * self.num_images:
            return f"a temporary matrix of {self.temp_rows} x {self.temp_cols} does not fit the steps"
        return None

    def set_temp_size(self, max_memory_mb: float) -> None:
        """Set the size of the temporary matrix: for all output rows, or fewer if these need over ``max_memory_mb`` MB.
        """
        self.temp_rows, self.temp_cols = 0, self._temp_cols()
        if self.temp_cols > 0:
            rows = self.num_t_out * self.num_images
            megabytes = f32(4.0 * (rows / 1000.0) * (self.temp_cols / 1000.0))
            with np.errstate(over="ignore"):
                pieces = int(min(f32(1.0) + megabytes / f32(max_memory_mb), f32(self.num_t_out)))
            self.temp_rows = -(-self.num_t_out // pieces) * self.num_images
            if 4e-6 * self.temp_rows * self.temp_cols > 1.01 * max_memory_mb:
                logger.warning("a convolution needs %.3g megabytes for one time step, more than max-memory-mb=%g",
                               4e-6 * self.temp_rows * self.temp_cols, max_memory_mb)

    def _temp_cols(self) -> int:
        return self.num_filters_in * max((step.height_map.size for step, needed in
                                          zip(self.steps, self.needs_copy, strict=True) if needed), default=0)

    # Not a table of fields: there are a list of steps and pairs of numbers under one tag, and the tag is another name.
    @classmethod
    def read(cls, reader: TokenReader) -> ConvolutionComputation:
        """Read the fields, perhaps after the opening tag. Raises FormatError if they are inconsistent."""
        reader.expect_one_or_two("<ConvComputation>", "<NumFiltersInOut>")
        filters_in, filters_out = (read_dim(reader, "<NumFiltersInOut>") for _ in range(2))
        reader.expect("<HeightInOut>")
        height_in, height_out = (read_dim(reader, "<HeightInOut>") for _ in range(2))
        reader.expect("<NumTInOut>")
        num_t_in, num_t_out = (read_dim(reader, "<NumTInOut>") for _ in range(2))
        reader.expect("<NumImages>")
        num_images = read_dim(reader, "<NumImages>")
        reader.expect("<TempRowsCols>")
        temp_rows, temp_cols = reader.integer(), reader.integer()
        reader.expect("<NumSteps>")
        num_steps = reader.integer()
        reader.check_count(num_steps, 1, "steps")
        steps = []
        for _ in range(num_steps):
            reader.expect("<TimeShift>")
            shift = reader.integer()
            reader.expect("<ParamsStartCol>")
            start = reader.integer()
            reader.expect("<HeightMap>")
            steps.append(ConvolutionStep(shift, start, np.ascontiguousarray(reader.integer_vector(), dtype=np.int32)))
        reader.expect("</ConvComputation>")
        computation = cls(filters_in, filters_out, height_in, height_out, num_t_in, num_t_out, num_images, temp_rows,
                          temp_cols, steps)
        fault = computation.fault()
        if fault is not None:
            raise reader.error(f"impossible convolution computation: {fault}")
        return computation

    def write(self, writer: TokenWriter) -> None:
        """Write the computation in the form that :meth:`read` expects."""
        writer.token("<ConvComputation>")
        for tag, sizes in (("<NumFiltersInOut>", (self.num_filters_in, self.num_filters_out)),
                           ("<HeightInOut>", (self.height_in, self.height_out)),
                           ("<NumTInOut>", (self.num_t_in, self.num_t_out)), ("<NumImages>", (self.num_images,)),
                           ("<TempRowsCols>", (self.temp_rows, self.temp_cols)), ("<NumSteps>", (len(self.steps),))):
            writer.token(tag)
            for size in sizes:
                writer.integer(size)
        for step in self.steps:
            writer.token("<TimeShift>")
            writer.integer(step.time_shift)
            writer.token("<ParamsStartCol>")
            writer.integer(step.params_start_col)
            writer.token("<HeightMap>")
            writer.integer_vector(step.height_map)
        writer.token("</ConvComputation>")


# -- compilation -----------------------------------------------------------------------------------------------------


def convolution_grid(model: ConvolutionModel, inputs: np.ndarray, outputs: np.ndarray) -> TimeGrid:
    """Return the grid of a convolution's rows, with missing times at the edges added and times grouped into blocks.

    Raises CompileError for inputs that the outputs do not use, or required inputs that are missing.

    Parameters
    ----------
    inputs, outputs : int32 (rows, 3); padding rows have t = NO_TIME
    """
    grid = TimeGrid.from_indexes(inputs, outputs)
    first = grid.start_out + int(model.time_offsets[0])
    last = grid.start_out + (grid.num_out - 1) * grid.step_out + int(model.time_offsets[-1])
    last_in = grid.start_in + (grid.num_in - 1) * grid.step_in
    if grid.start_in < first or last_in > last:
        raise CompileError(f"the inputs of a convolution go from t={grid.start_in} to {last_in}, but its outputs use "
                           f"{first} to {last} only")
    _check_required(model, grid)
    if model.time_modulus:
        grid.step_in = math.gcd(grid.step_in, model.time_modulus, grid.step_out)
        grid.start_in, grid.num_in = first, 1 + (last - first) // grid.step_in
    grid.step_out = grid.step_out or grid.step_in
    if grid.step_out != grid.step_in:   # a multiple of it, since the inputs of all outputs are on the grid
        grid.reorder_in = grid.step_out // grid.step_in
        grid.num_in = -(-grid.num_in // grid.reorder_in) * grid.reorder_in
    return grid


def _check_required(model: ConvolutionModel, grid: TimeGrid) -> None:
    times = grid.start_out + grid.step_out * np.arange(grid.num_out, dtype=np.int64)
    needed = np.unique(times[:, None] + model.required_time_offsets)
    place, rest = np.divmod(needed - grid.start_in, grid.step_in or 1)
    missing = (rest != 0) | (place < 0) | (place >= grid.num_in)
    if missing.any():
        raise CompileError(f"time {needed[missing][0]} is required but not in the input of a convolution")


def compile_convolution(model: ConvolutionModel, grid: TimeGrid, max_memory_mb: float) -> ConvolutionComputation:
    """Return the steps that compute the outputs of a grid (``convolution_grid``). Kaldi: CompileConvolutionComputation.
    """
    offsets = model.offsets.astype(np.int64)
    times, heights = offsets[:, 0] - int(model.time_offsets[0]), offsets[:, 1]
    # With k input times in a row, an offset is a number of rows and a place in the row.
    shifts, place = np.divmod(times, max(1, grid.step_out))
    place //= max(1, grid.step_in)
    inputs = model.height_subsample_out * np.arange(model.height_out)[:, None] + heights
    inside = (inputs >= 0) & (inputs < model.height_in)
    maps = np.where(inside, inputs + place * model.height_in, -1).astype(np.int32)   # (height_out, offsets)
    bounds = [*np.flatnonzero(np.diff(shifts, prepend=-1)).tolist(), len(shifts)]
    steps = [ConvolutionStep(int(shifts[a]), model.num_filters_in * a, np.ascontiguousarray(maps[:, a:b]).reshape(-1))
             for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    computation = ConvolutionComputation(
        model.num_filters_in, model.num_filters_out, model.height_in * grid.reorder_in, model.height_out,
        grid.num_in // grid.reorder_in, grid.num_out, grid.num_images, 0, 0, steps)
    computation.set_temp_size(max_memory_mb)
    return computation
