"""Normalization of rows to a root mean square, and of columns over a minibatch (batch normalization)."""
from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.components.base import Component, Properties, SameDimComponent
from nnet3py.components.fields import AS_DIM, OLDER, Field, Values, as_float32, invalid_initializer, vector_summary
from nnet3py.errors import ConfigError, Nnet3Error

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Memory, Ops

logger = logging.getLogger(__name__)

MEAN, UNCENTERED_VARIANCE, SCALE = range(3)   # rows of the memo of batch normalization
MEMO_ROWS = 5                                 # the three above, and two for the sums of kernels
ROWS_OF_A_SUM = 64                            # rows of each partial sum


def in_blocks(matrix: DeviceArray, dim: int) -> DeviceArray:
    """Return a view (rows k, dim) of a contiguous matrix (rows, k dim); the matrix itself if it has ``dim`` columns."""
    return matrix if matrix.shape[1] == dim else matrix.reshape(-1, dim)


def scratch_sums(ops: Ops, matrix: DeviceArray) -> DeviceArray:
    """Return a scratch matrix for the partial sums of ``ops.column_moments``: two sums for each column and part."""
    return ops.scratch(2 * num_parts(matrix), matrix.shape[1])


def num_parts(matrix: DeviceArray) -> int:
    """Return the number of parts into which the rows of ``matrix`` are divided for sums."""
    return -(-matrix.shape[0] // ROWS_OF_A_SUM)


def same_memory(a: DeviceArray, b: DeviceArray) -> bool:
    """Return whether two matrices of one device start at the same address."""
    if a is b:
        return True
    interface = "__cuda_array_interface__" if hasattr(a, "__cuda_array_interface__") else "__array_interface__"
    return getattr(a, interface)["data"][0] == getattr(b, interface)["data"][0]


class NormalizeComponent(Component):
    """Scaling of each row, or block of a row, to the root mean square ``target_rms``. Kaldi: NormalizeComponent.

    With ``add_log_stddev`` each block is followed by the logarithm of its root mean square before scaling.
    """

    FIELDS = (Field("<InputDim>|<Dim>", "dim", "dim"),
              Field("<BlockDim>", "block_dim", "block_dim", "block-dim", default=AS_DIM, omitted=True),
              Field("<TargetRms>", "float32", "target_rms", "target-rms", default=1.0),
              Field("<AddLogStddev>", "boolean", "add_log_stddev", "add-log-stddev", default=False),
              Field("<ValueAvg>", "vector", default=OLDER), Field("<DerivAvg>", "vector", default=OLDER),
              Field("<Count>", "float64", default=OLDER))
    INFO = ("input-dim", "output-dim", "target-rms", "add-log-stddev", "block-dim")

    def __init__(self, dim: int, block_dim: int | None = None, target_rms: float = 1.0,
                 add_log_stddev: bool = False) -> None:
        self.dim = dim
        self.block_dim = block_dim or dim
        self.target_rms = as_float32(target_rms)
        self.add_log_stddev = add_log_stddev

    @property
    def properties(self) -> Properties:
        flags = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_ADDS
        if not self.add_log_stddev:
            flags |= Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE
        if self.block_dim != self.dim:
            flags |= Properties.INPUT_CONTIGUOUS | Properties.OUTPUT_CONTIGUOUS
        return flags

    @property
    def input_dim(self) -> int:
        return self.dim

    @property
    def output_dim(self) -> int:
        return self.dim + (self.dim // self.block_dim if self.add_log_stddev else 0)

    @property
    def _output_block_dim(self) -> int:
        return self.block_dim + (1 if self.add_log_stddev else 0)

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: None) -> None:
        ops.normalize_rows(in_blocks(y, self._output_block_dim), in_blocks(x, self.block_dim), self.target_rms)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: None,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is None:
            return
        beta = 0.0 if same_memory(dx, dy) else 1.0
        ops.normalize_rows_backprop(in_blocks(dx, self.block_dim), in_blocks(x, self.block_dim),
                                    in_blocks(dy, self._output_block_dim), self.target_rms, beta)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> NormalizeComponent:
        dim = line.get_int("dim", -1)
        if dim == -1:                                  # of two keys, input-dim would be unused, which is an error
            dim = line.get_int("input-dim", 0)
        block_dim = line.get_int("block-dim", dim)
        target_rms = line.get_float("target-rms", 1.0)
        add_log_stddev = line.get_bool("add-log-stddev", False)
        if dim <= 0:
            raise invalid_initializer(line, cls.__name__, "dim (or input-dim, not both) is required and must be "
                                      "positive; other keys are block-dim, target-rms and add-log-stddev")
        if block_dim <= 0 or dim % block_dim or not target_rms > 0.0:
            raise invalid_initializer(line, cls.__name__, f"block-dim must divide {dim}, target-rms must be positive")
        return cls(dim, block_dim, target_rms, add_log_stddev)


class BatchNormComponent(SameDimComponent):
    """Normalization of columns to mean 0 and a given standard deviation over the minibatch. Kaldi: BatchNormComponent.

    In test mode the stored statistics are used instead of those of the minibatch.

    Attributes
    ----------
    count : float64 (1,), number of rows in the stored statistics
    sum, sumsq : float64 (block_dim,), stored sums and sums of squares
    test_scale, test_offset : float32 (block_dim,), computed from the stored statistics in test mode; else None
    """

    STATISTICS = ("count", "sum", "sumsq")
    FIELDS = (Field("<Dim>", "dim", "dim", "dim"), Field("<BlockDim>", "block_dim", "block_dim", "block-dim"),
              Field("<Epsilon>", "float32", "epsilon", "epsilon"),
              Field("<TargetRms>", "float32", "target_rms", "target-rms"),
              Field("<TestMode>", "boolean", "test_mode", "test-mode"), Field("<Count>", "float64", "count.0", "count"),
              Field("<StatsMean>", "vector", "stats_mean", size="block_dim"),
              Field("<StatsVar>", "vector", "stats_var", size="block_dim"))
    INFO = ("dim", "block-dim", "epsilon", "target-rms", "count", "test-mode")
    CONSTANTS = ("test_scale", "test_offset")    # computed on the host; kernels read them

    def __init__(self, dim: int, block_dim: int | None = None, epsilon: float = 1.0e-3,
                 target_rms: float = 1.0) -> None:
        self.dim = dim
        self.block_dim = block_dim or dim
        self.epsilon, self.target_rms = as_float32(epsilon), as_float32(target_rms)
        self.test_mode = False
        self.count = np.zeros(1)
        self.sum, self.sumsq = np.zeros(self.block_dim), np.zeros(self.block_dim)
        self.test_scale: np.ndarray | None = None
        self.test_offset: np.ndarray | None = None

    @property
    def properties(self) -> Properties:
        flags = (Properties.SIMPLE | Properties.BACKPROP_NEEDS_OUTPUT | Properties.PROPAGATE_IN_PLACE
                 | Properties.BACKPROP_IN_PLACE)
        if self.block_dim < self.dim:
            flags |= Properties.INPUT_CONTIGUOUS | Properties.OUTPUT_CONTIGUOUS
        return flags if self.test_mode else flags | Properties.USES_MEMO | Properties.STORES_STATS

    def set_test_mode(self, test_mode: bool, rng: np.random.Generator | None = None) -> None:
        """Switch to the stored statistics (True) or to those of the minibatch (False).

        Without stored statistics, test mode logs a warning and draws random ones from ``rng``, which are kept.
        """
        self.test_mode = test_mode
        if test_mode and self.count[0] == 0.0:
            logger.warning("Test-mode is set but there is no data count.  Creating random counts.  "
                           "This only makes sense in unit-tests (or compute_prob_*.0.log).  If you see this "
                           "elsewhere, something is very wrong.")
            rng = rng or np.random.default_rng(0)
            self.count[0] = 1.0
            self.sum[...] = rng.standard_normal(self.block_dim)
            self.sumsq[...] = rng.standard_normal(self.block_dim) + self.sum ** 2
        self.compute_derived()

    def compute_derived(self) -> None:
        """Compute ``test_scale`` and ``test_offset`` from the stored statistics; set them to None outside test mode."""
        if not self.test_mode:
            self.test_scale = self.test_offset = None
            return
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse_count = np.float32(1.0 / self.count[0])
        mean = self.sum.astype(np.float32) * inverse_count
        variance = np.maximum(self.sumsq.astype(np.float32) * inverse_count - mean * mean, np.float32(0))
        scale = (variance + np.float32(self.epsilon)) ** np.float32(-0.5) * np.float32(self.target_rms)
        self.test_scale, self.test_offset = scale, -mean * scale

    def zero_stats(self) -> None:
        if not self.test_mode:
            super().zero_stats()

    def add(self, alpha: float, other: Component) -> None:
        super().add(alpha, other)
        self.compute_derived()

    def store_stats(self, ops: Ops, x: DeviceArray, y: DeviceArray, memo: DeviceArray) -> None:
        num_rows = y.shape[0] * (y.shape[1] // self.block_dim)
        ops.batch_norm_store_stats(self.count, self.sum, self.sumsq, memo, num_rows)

    def new_memo(self, ops: Memory, num_rows: int) -> DeviceArray | None:
        return None if self.test_mode else ops.new_vector(MEMO_ROWS * self.block_dim).reshape(MEMO_ROWS, self.block_dim)

    @property
    def takes_sums(self) -> bool:
        """True if ``propagate`` needs the column sums of its input (``ops.column_moments``): not in test mode."""
        return not self.test_mode and self.block_dim == self.dim

    def propagate(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, memo: DeviceArray,
                  sums: DeviceArray | None = None) -> None:
        """Normalize ``x`` into ``y``; ``sums`` are the ``column_moments`` of ``x`` if the caller has computed them."""
        x, y = in_blocks(x, self.block_dim), in_blocks(y, self.block_dim)
        if not self.test_mode:
            if sums is None:
                sums = scratch_sums(ops, x)
                ops.column_moments(sums, x)
            ops.batch_norm_propagate(y, memo, x, sums, self.epsilon, self.target_rms)
            return
        scale, offset = self._derived()
        ops.mul_cols_vec(y, x, scale)
        ops.add_vec_to_rows(y, offset, 1.0, 1.0)

    def backprop(self, ops: Ops, indexes: None, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: DeviceArray,
                 update: Component | None, dx: DeviceArray | None) -> None:
        if dx is None:
            return
        y, dy, dx = (in_blocks(matrix, self.block_dim) for matrix in (y, dy, dx))
        if self.test_mode:
            ops.mul_cols_vec(dx, dy, self._derived()[0])
        else:
            sums = scratch_sums(ops, dy)
            ops.column_products(sums, y, dy)
            ops.batch_norm_backprop(dx, memo, y, dy, sums, self.target_rms)

    def _derived(self) -> tuple[np.ndarray, np.ndarray]:
        """Return scale and offset of test mode. Raises Nnet3Error if there are no statistics."""
        if self.test_scale is None or self.test_offset is None:
            raise Nnet3Error("Test mode set in BatchNormComponent, but no stats.",
                             "set the test mode with set_test_mode, or use a trained model")
        return self.test_scale, self.test_offset

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> BatchNormComponent:
        dim = line.get_int("dim", 0)
        if dim <= 0:
            raise ConfigError("BatchNormComponent must have 'dim' specified, and > 0",
                              f"the line is: {line.whole_line}")
        block_dim = line.get_int("block-dim", -1)
        epsilon, target_rms = line.get_float("epsilon", 1.0e-3), line.get_float("target-rms", 1.0)
        test_mode = line.get_bool("test-mode", False)
        if block_dim == -1:
            block_dim = dim
        if block_dim <= 0 or dim % block_dim or not epsilon > 0.0 or not target_rms > 0.0:
            raise invalid_initializer(line, cls.__name__,
                                      f"block-dim must divide dim={dim}, epsilon and target-rms must be positive")
        component = cls(dim, block_dim, epsilon, target_rms)
        if test_mode:
            component.set_test_mode(True, rng)
        return component

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        count, test_mode = values["count.0"], values.pop("test_mode")
        mean, variance = (values.pop(name).astype(np.float64) for name in ("stats_mean", "stats_var"))
        component = super().from_fields(reader, values)
        component.sum[...] = mean * count
        component.sumsq[...] = (variance + mean * mean) * count
        if test_mode:
            component.set_test_mode(True)
        return component

    @property
    def stats_mean(self) -> np.ndarray:
        """Mean of the stored statistics, float32 (block_dim,)."""
        return self._mean_and_variance()[0]

    @property
    def stats_var(self) -> np.ndarray:
        """Variance of the stored statistics, float32 (block_dim,)."""
        return self._mean_and_variance()[1]

    def _mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Return float32 mean and variance (not floored) of the stored statistics; the sums if the count is 0.

        The division is in float64, so that a file keeps its bytes when it is read and written.
        """
        count = self.count[0]
        if count == 0.0:
            return self.sum.astype(np.float32), self.sumsq.astype(np.float32)
        mean = (self.sum / count).astype(np.float32)
        return mean, (self.sumsq / count - np.square(mean, dtype=np.float64)).astype(np.float32)

    def info(self, verbose: int = 0) -> str:
        text = super().info(verbose)
        if self.count[0] > 0:
            mean, variance = self._mean_and_variance()
            text += f", data-mean={vector_summary(mean)}"
            text += f", data-stddev={vector_summary(np.sqrt(np.maximum(variance, np.float32(0))))}"
        return text
