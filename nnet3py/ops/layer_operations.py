"""Declarations of operations on the layers of a network: values, derivatives, statistics and self-repair."""
from __future__ import annotations

from nnet3py.ops.arrays import F32, Bool, DMat, DVec, F32Cell, IMat, Int, IntCell, IVec, Mat, Out, Protocol, Vec


class Nonlinear(Protocol):
    """Sigmoid, tanh, rectifiers and softmax: values, derivatives, statistics and self-repair."""

    def softmax(self, dst: Out[Mat], src: Mat) -> None:
        """Compute in each row exp(src) over its sum, floored at 1e-20; ``dst`` may be ``src``.

        Kaldi: SoftMaxPerRow, ApplyFloor.
        """

    def log_softmax(self, dst: Out[Mat], src: Mat) -> None:
        """Compute in each row src - log(sum of exp(src)). Kaldi: LogSoftMaxPerRow."""

    def softmax_backprop(self, dx: Out[Mat], y: Mat, dy: Mat) -> None:
        """Compute in each row ``dx = y (dy - sum of y dy)``; ``dx`` may be ``dy``. Kaldi: DiffSoftmaxPerRow."""

    def log_softmax_backprop(self, dx: Out[Mat], y: Mat, dy: Mat) -> None:
        """Compute in each row ``dx = dy - exp(y) (sum of dy)``; ``dx`` may be ``dy``. Kaldi: DiffLogSoftmaxPerRow."""

    def sigmoid_stats(self, value_sum: Out[DVec], deriv_sum: Out[DVec], counters: Out[DVec], y: Mat,
                      draw: IntCell) -> None:
        """Add the columns' sums of ``y`` and y (1 - y), and the number of rows to ``counters[0]``.

        Nothing is added if ``draw`` is 0 and ``counters[0]`` is not.
        """

    def tanh_stats(self, value_sum: Out[DVec], deriv_sum: Out[DVec], counters: Out[DVec], y: Mat,
                   draw: IntCell) -> None:
        """Add sums as ``sigmoid_stats``, with 1 - y^2 in place of y (1 - y)."""

    def relu_stats(self, value_sum: Out[DVec], deriv_sum: Out[DVec], counters: Out[DVec], y: Mat,
                   draw: IntCell) -> None:
        """Add sums as ``sigmoid_stats``, with 1 where ``y`` is positive and 0 elsewhere in place of y (1 - y)."""

    def value_stats(self, value_sum: Out[DVec], counters: Out[DVec], y: Mat) -> None:
        """Add the columns' sums of ``y``, and the number of rows to ``counters[0]``."""

    def output_deriv_stats(self, oderiv_sumsq: Out[DVec], counters: Out[DVec], dy: Mat, draw: IntCell) -> None:
        """Add the columns' sums of squares of ``dy``, and the number of rows to ``counters[1]``.

        Nothing is added if ``draw`` is 0 and ``counters[1]`` is not.
        """

    def output_deriv_stats_of_parts(self, oderiv_sumsq: Out[DVec], counters: Out[DVec], squares: Mat,
                                    num_rows: Int, draw: IntCell) -> None:
        """Add as ``output_deriv_stats``; sums of squares of ``num_rows`` rows are the columns' sums of ``squares``."""

    def low_slope_repair(self, repair: Out[Vec], updated_counters: Out[DVec], deriv_sum: DVec, counters: DVec,
                         threshold: F32, scale: F32, draw: F32Cell) -> None:
        """Find the repair that ``sigmoid_backprop`` and ``tanh_backprop`` make in columns of low average derivative.

        ``repair`` becomes 2 ``scale`` in the columns whose average derivative is below ``threshold``, 0 in the others;
        0 everywhere if nothing is stored or ``draw`` is above 0.5. ``updated_counters`` may be ``counters``.
        """

    def relu_repair(self, repair: Out[Vec], updated_counters: Out[DVec], deriv_sum: DVec, counters: DVec,
                    block_dim: Int, lower: F32, upper: F32, scale: F32, draw: F32Cell) -> None:
        """Find the repair that ``relu_backprop`` makes in units that are too rarely or too often active.

        ``repair`` becomes -2 ``scale`` where a unit is active in at most ``lower`` of the rows, 2 ``scale`` where in
        more than ``upper``, 0 between; 0 everywhere if nothing is stored or ``draw`` is above 0.5. A unit is a place in
        a block of ``block_dim`` columns, and its activity the mean over the blocks. ``updated_counters`` may be
        ``counters``.
        """


class Normalize(Protocol):
    """Norms of rows, and batch normalization."""

    def normalize_rows(self, dst: Out[Mat], src: Mat, target_rms: F32) -> None:
        """Scale each row to the rms ``target_rms``; ``dst`` may be ``src``. Kaldi: NormalizePerRow.

        If ``dst`` has a column more than ``src``, the column gets the logarithm of the row's rms.
        """

    def normalize_rows_backprop(self, dx: Out[Mat], x: Mat, dy: Mat, target_rms: F32, beta: F32) -> None:
        """Differentiate ``normalize_rows``, and add ``beta`` (0 or 1) ``dx``; ``dx`` may be ``dy`` if ``beta`` is 0.

        Kaldi: DiffNormalizePerRow.
        """

    def column_moments(self, sums: Out[Mat], src: Mat) -> None:
        """Compute ``column_products`` with ``y`` and ``dy`` both ``src``: sums of columns and of their squares."""

    def column_products(self, sums: Out[Mat], y: Mat, dy: Mat) -> None:
        """Set row p of ``sums`` to sums of columns of ``dy`` over rows 64 p to 64 p + 63; second half: of y dy."""

    def batch_norm_propagate(self, dst: Out[Mat], memo: Out[Mat], src: Mat, sums: Mat, epsilon: F32,
                             target_rms: F32) -> None:
        """Give each column mean 0 and variance ``target_rms``^2; ``dst`` may be ``src``. ``memo`` has 5 rows.

        ``sums`` are the ``column_moments`` of ``src``. ``memo`` gets the columns' mean, mean square and scale, and two
        rows of work space. The variance is a difference of float32 numbers, as in Kaldi.
        """

    def batch_norm_backprop(self, dx: Out[Mat], memo: Out[Mat], y: Mat, dy: Mat, sums: Mat, target_rms: F32) -> None:
        """Differentiate ``batch_norm_propagate``, which filled ``memo``; ``dx`` may be ``dy``.

        ``sums`` are the ``column_products`` of ``y`` and ``dy``.
        """

    def batch_norm_relu_backprop(self, dx: Out[Mat], squares: Out[Mat], memo: Out[Mat], y: Mat, dy: Mat,
                                 sums: Mat, active: Mat, floor: Vec, repair: Vec, target_rms: F32) -> None:
        """Run ``batch_norm_backprop``, then ``relu_backprop``: a unit was active where ``active`` is above ``floor``.

        ``active`` and ``floor`` are the rectifier's output and 0; or ``y``, and the value that 0 has become there. Row
        p of ``squares`` gets the columns' sums of squares of the derivative between the two steps, over rows 64 p to
        64 p + 63. ``dx`` may be ``dy``.
        """

    def batch_norm_store_stats(self, count: Out[DVec], total: Out[DVec], total_square: Out[DVec], memo: Mat,
                               num_rows: Int) -> None:
        """Add to the sums the moments that ``batch_norm_propagate`` left in ``memo``, of ``num_rows`` rows."""

class Recurrent(Protocol):
    """LSTM and GRU cells."""

    def lstm_propagate(self, dst: Out[Mat], src: Mat, params: Mat) -> None:
        """Compute the cells of every row: ``dst`` = (c, m), from ``src`` = (i, f, c, o parts, c_prev, perhaps 3 masks).

        ``params`` are the peephole weights (3, cells). Kaldi: ComputeLstmNonlinearity.
        """

    def lstm_backprop(self, dx: Out[Mat], sums: Out[Mat], x: Mat, dy: Mat, params: Mat, repair: Mat,
                      want_dx: Bool) -> None:
        """Differentiate ``lstm_propagate``, with self-repair, and sum over the rows. Kaldi: BackpropLstmNonlinearity.

        ``dx`` gets the derivatives at the five parts, if ``want_dx``; columns of masks stay as they are. ``sums`` (13,
        cells) gets the derivatives of ``params``, then the sums of the five nonlinearities' values, then of their
        derivatives. ``repair`` (5, cells) is made by ``lstm_self_repair``.
        """

    def lstm_self_repair(self, repair: Out[Mat], flagged: Out[Vec], deriv_sum: DMat, count: DVec, config: Vec) -> None:
        """``repair[k, j]`` = the scale of nonlinearity k if its average derivative in cell j is too small, else 0.

        ``config`` holds five thresholds, then five scales; averages are over ``count`` + 1 rows, so that cells
        without statistics are repaired. ``flagged[k]`` becomes the number of such cells.
        """

    def lstm_store_stats(self, value_sum: Out[DMat], deriv_sum: Out[DMat], self_repair_total: Out[DVec],
                         count: Out[DVec], sums: Mat, flagged: Vec, num_rows: Int) -> None:
        """Add to the statistics the results of ``lstm_backprop`` and ``lstm_self_repair`` in ``num_rows`` rows."""

    def gru_propagate(self, dst: Out[Mat], z: Mat, c_prev: Mat) -> None:
        """Compute ``dst`` = (h, c), whose first half holds the arguments of h = tanh; c = h - z h + z c_prev."""

    def gru_sum_deriv(self, dst: Out[Mat], z: Mat, y: Mat, dy: Mat) -> None:
        """Compute ``dst = (dh + dc - z dc) (1 - h^2)``, the derivative at the sums of ``gru_propagate``.

        ``y`` = (h, c) is its output, ``dy`` = (dh, dc) the derivative there.
        """

    def gru_gate_deriv(self, dz: Out[Mat], dc_prev: Out[Mat], z: Mat, c_prev: Mat, y: Mat, dy: Mat) -> None:
        """Compute ``dz += dc (c_prev - h)`` and ``dc_prev += dc z``, of ``y`` = (h, c) and ``dy`` = (dh, dc)."""

    def gru_repair(self, repair: Out[Vec], value_sum: Out[DVec], deriv_sum: Out[DVec], counters: Out[DVec],
                   h: Mat, threshold: F32, draw: F32Cell) -> None:
        """Add the columns' sums of ``h`` and 1 - h^2, then ``repair[j]`` = 2 where the average of 1 - h^2 is too small.

        Elsewhere, and everywhere if ``draw`` is above 0.5, in which case nothing is added, ``repair`` is 0.
        """


class Structural(Protocol):
    """Permutations, blocks and groups of columns; the clipping of derivatives, row by row."""

    def copy_cols(self, dst: Out[Mat], src: Mat, indexes: IVec) -> None:
        """Compute ``dst[i, j] = src[i, indexes[j]]``, a zero column where the index is -1. Kaldi: CopyCols."""

    def multiply_blocks(self, dst: Out[Mat], src: Mat) -> None:
        """Compute ``dst`` = the elementwise product of the blocks of ``src`` that are as wide as ``dst``."""

    def multiply_blocks_backprop(self, dx: Out[Mat], x: Mat, dy: Mat) -> None:
        """Differentiate ``multiply_blocks``: each block gets ``dy`` times the product of the other blocks of ``x``."""

    def add_sum_of_blocks(self, dst: Out[Mat], src: Mat, alpha: F32) -> None:
        """Compute ``dst += alpha`` times the sum of the blocks of ``src`` that are as wide as ``dst``.

        Kaldi: AddMatBlocks.
        """

    def add_to_blocks(self, dst: Out[Mat], src: Mat, alpha: F32) -> None:
        """Add ``alpha src`` to every block of ``dst`` that is as wide as ``src``. Kaldi: AddMatBlocks."""

    def sum_column_groups(self, dst: Out[Mat], src: Mat, groups: IMat) -> None:
        """Compute ``dst[i, j]`` = sum of ``src[i, groups[j, 0]:groups[j, 1]]``. Kaldi: SumColumnRanges."""

    def copy_to_column_groups(self, dst: Out[Mat], src: Mat, groups: IMat) -> None:
        """Compute ``dst[i, groups[j, 0]:groups[j, 1]] = src[i, j]``. Kaldi: CopyCols."""

    def copy_row_pieces(self, dst: Out[Mat], src: Mat, places: IMat) -> None:
        """Compute ``dst[i]`` = the columns of ``src[places[i, 0]]`` from ``places[i, 1]`` on.

        Kaldi: CopyRows of pointers.
        """

    def copy_to_row_pieces(self, dst: Out[Mat], src: Mat, places: IMat) -> None:
        """Set the columns of ``dst[places[i, 0]]`` from ``places[i, 1]`` on to ``src[i]``. Kaldi: CopyToRows."""

    def clip_elements(self, dx: Out[Mat], counters: Out[DVec], dy: Mat, limit: F32, store: Bool) -> None:
        """Clip ``dy`` to -``limit`` to ``limit``; ``dx`` may be ``dy``; with ``store``, counters[3] += 1."""

    def clip_rows(self, dx: Out[Mat], counters: Out[DVec], dy: Mat, limit: F32, store: Bool) -> None:
        """Compute ``dx = dy``, rows of a larger norm than ``limit`` scaled down to it; ``dx`` may be ``dy``.

        With ``store``, ``counters`` (rows clipped, rows seen, -, calls) go up; a row of just that norm counts as
        clipped.
        """

    def clip_gradient_repair(self, dx: Out[Mat], updated_counters: Out[DVec], x: Mat, counters: DVec,
                             proportion_threshold: F32, target: F32, scale: F32, draw: F32Cell) -> None:
        """Pull ``x`` back towards ``target`` if more rows than ``proportion_threshold`` are clipped.

        The sum of the norms of the rows of ``dx`` stays. ``counters`` (rows clipped, rows seen, calls repaired, calls)
        decide, and a ``draw`` of at most 0.5; counters[2] of ``updated_counters`` goes up. Kaldi:
        ClipGradientComponent::RepairGradients.
        """

    def truncate_gradient(self, dx: Out[Mat], counters: Out[DVec], dy: Mat, zeroing: Vec, scale: F32,
                          clipping_threshold: F32, zeroing_threshold: F32, store: Bool) -> None:
        """Set ``dx = scale dy``, rows clipped to a norm, or 0 where ``zeroing`` is -1 and the norm above a threshold.

        With ``store``, ``counters`` (rows clipped, rows zeroed, rows seen, rows at boundaries) go up. ``dx`` may be
        ``dy``. Kaldi: BackpropTruncationComponent::Backprop.
        """


class Pooling(Protocol):
    """Norms and maxima over columns; sums over ranges of frames, their means and standard deviations."""

    def pnorm(self, dst: Out[Mat], src: Mat) -> None:
        """Compute ``dst[i, j]`` = the 2-norm of the j-th group of consecutive columns of ``src[i]``.

        Kaldi: GroupPnorm.
        """

    def pnorm_backprop(self, dx: Out[Mat], x: Mat, y: Mat, dy: Mat) -> None:
        """Differentiate ``pnorm``: ``dx = dy x / y`` with y and dy of the group, 0 where ``y`` is 0."""

    def max_pool(self, dst: Out[Mat], src: Mat, shape: IVec) -> None:
        """Compute ``dst`` = the maxima of boxes of the tensors that the rows of ``src`` are.

        ``shape`` (12,) is the tensor's x, y, z dimensions, the box's, its steps, and how many boxes there are, along
        each.
        """

    def max_pool_backprop(self, dx: Out[Mat], x: Mat, y: Mat, dy: Mat, shape: IVec) -> None:
        """Add the derivative of ``max_pool`` to ``dx``: every member of a box equal to its maximum gets all of ``dy``.
        """

    def extract_statistics(self, dst: Out[Mat], src: Mat, ranges: IMat) -> None:
        """``dst[i]`` += the number of rows in ``ranges[i]``, their sum in ``src``, and the sum of their squares.

        The squares are left out where ``dst`` has no columns for them. Kaldi: StatisticsExtractionComponent::Propagate.
        """

    def extract_statistics_backprop(self, dx: Out[Mat], x: Mat, dy: Mat, rows: IVec) -> None:
        """Compute ``dx[r]`` = the derivative of the sums in ``dy[rows[r]]``, and 2 ``x`` times that of the squares."""

    def pool_statistics(self, dst: Out[Mat], src: Mat, ranges: IMat, num_log_counts: Int, stddevs: Bool,
                        variance_floor: F32) -> None:
        """Means of sums: the rows of ``src`` in ``ranges[i]`` added up, and divided by their count.

        The count is in column 0 of ``src``. The first ``num_log_counts`` columns of ``dst`` become its logarithm. With
        ``stddevs`` the second half of the means, those of squares, becomes standard deviations; ``variance_floor`` is
        the smallest variance. Kaldi: StatisticsPoolingComponent::Propagate.
        """

    def pool_statistics_backprop(self, dst: Out[Mat], y: Mat, dy: Mat, counts: Mat, num_log_counts: Int,
                                 stddevs: Bool) -> None:
        """``dst`` = derivative by the sums that ``pool_statistics`` divided, of its output ``y`` and derivative ``dy``.

        ``counts`` (rows, 1) holds the counts, or their logarithms if there are log-count columns. Nothing flows through
        the counts, and the floor of the variance has no effect. ``y`` is read only with ``stddevs``.
        """


class Convolution(Protocol):
    """Columns gathered for products with filters, and added back; products and sums of rows a fixed number apart."""

    def copy_col_blocks(self, dst: Out[Mat], src: Mat, blocks: IVec) -> None:
        """Set block j of the columns of ``dst`` to block ``blocks[j]`` of ``src``, zeros for -1. Kaldi: CopyCols."""

    def add_to_col_blocks(self, dst: Out[Mat], src: Mat, blocks: IVec) -> None:
        """Add block j of ``src`` to block ``blocks[j]`` of the columns of ``dst``, nothing for -1. Kaldi: AddCols.

        Several blocks of ``src`` may go to one of ``dst``; they are added in their order.
        """

    def copy_transposed(self, dst: Out[Mat], src: Mat) -> None:
        """Compute ``dst[i, j] = src[j, i]``. Kaldi: CopyFromMat with kTrans."""

    def add_shifted_dots(self, dst: Out[Mat], a: Mat, b: Mat, shift: Int, alpha: F32) -> None:
        """Compute ``dst[i, o] += alpha`` (``a[i]`` times ``b[i + o * shift]``). Kaldi: GetAttentionDotProducts."""

    def add_shifted_rows(self, dst: Out[Mat], scales: Mat, src: Mat, shift: Int, alpha: F32) -> None:
        """Compute ``dst[i] += alpha`` (sum over o of ``scales[i, o] src[i + o * shift]``), o rising.

        Kaldi: ApplyScalesToOutput.
        """

    def add_to_shifted_rows(self, dst: Out[Mat], scales: Mat, src: Mat, shift: Int, alpha: F32) -> None:
        """Compute ``dst[i + o * shift] += alpha scales[i, o] src[i]``, for each row with i rising.

        Kaldi: ApplyScalesToInput.
        """

    def attention_store_stats(self, count: Out[DVec], entropy: Out[DVec], posterior: Out[DMat], weights: Mat,
                              draw: IntCell) -> None:
        """Add the rows of ``weights`` (rows, heads * positions), their entropy for each head, and the columns' sums.

        Nothing if ``draw`` is 0. Kaldi: RestrictedAttentionComponent::StoreStats.
        """
