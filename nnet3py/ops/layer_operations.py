"""Declarations of operations on the layers of a network: values, derivatives, statistics and self-repair."""
from __future__ import annotations

from nnet3py.ops.arrays import F32, Bool, DMat, DVec, F32Cell, IMat, Int, IntCell, IVec, Mat, Out, Protocol, Vec


class Nonlinear(Protocol):
    """Sigmoid, tanh, rectifiers and softmax: values, derivatives, statistics and self-repair."""

    def softmax(self, dst: Out[Mat], src: Mat) -> None:
        """Compute the softmax of each row, floored at 1e-20; ``dst`` may be ``src``.

        Kaldi: SoftMaxPerRow, ApplyFloor.
        """

    def log_softmax(self, dst: Out[Mat], src: Mat) -> None:
        """Compute the log-softmax of each row; ``dst`` may be ``src``. Kaldi: LogSoftMaxPerRow."""

    def softmax_backprop(self, dx: Out[Mat], y: Mat, dy: Mat) -> None:
        """Compute in each row ``dx = y (dy - sum of y dy)``; ``dx`` may be ``dy``. Kaldi: DiffSoftmaxPerRow."""

    def log_softmax_backprop(self, dx: Out[Mat], y: Mat, dy: Mat) -> None:
        """Compute in each row ``dx = dy - exp(y) (sum of dy)``; ``dx`` may be ``dy``. Kaldi: DiffLogSoftmaxPerRow."""

    def sigmoid_stats(self, value_sum: Out[DVec], deriv_sum: Out[DVec], counters: Out[DVec], y: Mat,
                      draw: IntCell) -> None:
        """Add the columns' sums of ``y`` to ``value_sum`` and of y (1 - y) to ``deriv_sum``.

        ``counters[0]`` counts the rows. If ``draw`` is 0 and ``counters[0]`` is not, nothing is added.
        """

    def tanh_stats(self, value_sum: Out[DVec], deriv_sum: Out[DVec], counters: Out[DVec], y: Mat,
                   draw: IntCell) -> None:
        """Add sums as ``sigmoid_stats``, with 1 - y^2 in place of y (1 - y)."""

    def relu_stats(self, value_sum: Out[DVec], deriv_sum: Out[DVec], counters: Out[DVec], y: Mat,
                   draw: IntCell) -> None:
        """Add sums as ``sigmoid_stats``, with 1 where ``y`` is positive and 0 elsewhere in place of y (1 - y)."""

    def value_stats(self, value_sum: Out[DVec], counters: Out[DVec], y: Mat) -> None:
        """Add the columns' sums of ``y`` to ``value_sum``, and the number of rows to ``counters[0]``."""

    def output_deriv_stats(self, oderiv_sumsq: Out[DVec], counters: Out[DVec], dy: Mat, draw: IntCell) -> None:
        """Add the columns' sums of squares of ``dy`` to ``oderiv_sumsq``, and the number of rows to ``counters[1]``.

        If ``draw`` is 0 and ``counters[1]`` is not, nothing is added.
        """

    def output_deriv_stats_of_parts(self, oderiv_sumsq: Out[DVec], counters: Out[DVec], squares: Mat,
                                    num_rows: Int, draw: IntCell) -> None:
        """Add the columns' sums of ``squares`` as ``output_deriv_stats``, and ``num_rows`` to ``counters[1]``."""

    def low_slope_repair(self, repair: Out[Vec], updated_counters: Out[DVec], deriv_sum: DVec, counters: DVec,
                         threshold: F32, scale: F32, draw: F32Cell) -> None:
        """Compute ``repair`` for ``sigmoid_backprop`` and ``tanh_backprop``, for columns of low average derivative.

        ``repair`` becomes 2 ``scale`` in the columns whose average derivative is below ``threshold``, 0 in the others;
        0 everywhere if ``counters[0]`` is 0 or ``draw`` is above 0.5. In ``updated_counters``, which may be
        ``counters``, the columns repaired and the columns examined are counted.
        """

    def relu_repair(self, repair: Out[Vec], updated_counters: Out[DVec], deriv_sum: DVec, counters: DVec,
                    block_dim: Int, lower: F32, upper: F32, scale: F32, draw: F32Cell) -> None:
        """Compute ``repair`` for ``relu_backprop``, for units that are active too rarely or too often.

        ``repair`` becomes -2 ``scale`` for a unit that is active in at most the fraction ``lower`` of the rows,
        2 ``scale`` for more than ``upper``, else 0; 0 everywhere if ``counters[0]`` is 0 or ``draw`` is above 0.5.
        Columns whose numbers are equal modulo ``block_dim`` are one unit, whose fraction is the mean over them.
        ``updated_counters`` may be ``counters``.
        """


class Normalize(Protocol):
    """Norms of rows, and batch normalization."""

    def normalize_rows(self, dst: Out[Mat], src: Mat, target_rms: F32) -> None:
        """Scale each row to the root mean square ``target_rms``; ``dst`` may be ``src``. Kaldi: NormalizePerRow.

        If ``dst`` has a column more than ``src``, that column gets the logarithm of the row's root mean square.
        """

    def normalize_rows_backprop(self, dx: Out[Mat], x: Mat, dy: Mat, target_rms: F32, beta: F32) -> None:
        """Set ``dx`` (``beta`` 0), or add to it (``beta`` 1), the derivative of ``normalize_rows`` at its input ``x``.

        ``dy`` is the derivative at the output; ``dx`` may be ``dy`` if ``beta`` is 0.

        Kaldi: DiffNormalizePerRow.
        """

    def column_moments(self, sums: Out[Mat], src: Mat) -> None:
        """Sum columns, and their squares, over groups of 64 rows: ``column_products`` of ``src`` and ``src``."""

    def column_products(self, sums: Out[Mat], y: Mat, dy: Mat) -> None:
        """Sum columns over groups of 64 rows: ``sums`` is first a row for each group with sums of dy, then of y dy."""

    def batch_norm_propagate(self, dst: Out[Mat], memo: Out[Mat], src: Mat, sums: Mat, epsilon: F32,
                             target_rms: F32) -> None:
        """Normalize each column to mean 0 and variance ``target_rms``^2; ``dst`` may be ``src``.

        ``sums`` are the ``column_moments`` of ``src``. ``memo`` (5, columns) gets the columns' mean, mean square and
        scale, and two rows of zeros for ``batch_norm_backprop``. The variance is a difference of float32 numbers, as in
        Kaldi.
        """

    def batch_norm_backprop(self, dx: Out[Mat], memo: Out[Mat], y: Mat, dy: Mat, sums: Mat, target_rms: F32) -> None:
        """Differentiate ``batch_norm_propagate``, which filled ``memo``; ``dx`` may be ``dy``.

        ``sums`` are the ``column_products`` of ``y`` and ``dy``.
        """

    def batch_norm_relu_backprop(self, dx: Out[Mat], squares: Out[Mat], memo: Out[Mat], y: Mat, dy: Mat,
                                 sums: Mat, active: Mat, floor: Vec, repair: Vec, target_rms: F32) -> None:
        """Differentiate a rectifier followed by batch normalization, in one pass; ``dx`` may be ``dy``.

        The rectifier was active where ``active`` is above ``floor``: its output and 0; or ``y``, and for each column
        the value to which batch normalization maps 0. Row p of ``squares`` gets the columns' sums, over rows 64 p to
        64 p + 63, of the squared derivative between the two. Other arguments as for ``batch_norm_backprop`` and
        ``relu_backprop``.
        """

    def batch_norm_store_stats(self, count: Out[DVec], total: Out[DVec], total_square: Out[DVec], memo: Mat,
                               num_rows: Int) -> None:
        """Add ``num_rows`` to ``count``, and ``num_rows`` times the mean and mean square in ``memo`` to the totals."""

class Recurrent(Protocol):
    """LSTM and GRU cells."""

    def lstm_propagate(self, dst: Out[Mat], src: Mat, params: Mat) -> None:
        """Compute LSTM cells; a row is a frame: ``dst`` = (c, m), ``src`` = (i, f, c, o parts, c_prev, [3 masks]).

        ``params`` are the peephole weights (3, cells). Kaldi: ComputeLstmNonlinearity.
        """

    def lstm_backprop(self, dx: Out[Mat], sums: Out[Mat], x: Mat, dy: Mat, params: Mat, repair: Mat,
                      want_dx: Bool) -> None:
        """Differentiate ``lstm_propagate``, with self-repair. Kaldi: BackpropLstmNonlinearity.

        If ``want_dx``, ``dx`` gets the derivatives at ``x`` (the ``src`` of ``lstm_propagate``) except for dropout
        masks, whose columns stay unchanged. ``sums`` (13, cells) gets sums over the rows: the derivatives of
        ``params``, the values of the five nonlinearities, their slopes. ``repair`` (5, cells) is made by
        ``lstm_self_repair``.
        """

    def lstm_self_repair(self, repair: Out[Mat], flagged: Out[Vec], deriv_sum: DMat, count: DVec, config: Vec) -> None:
        """Set ``repair[k, j]`` to the scale of nonlinearity k if its mean slope in cell j is below a threshold, else 0.

        ``config`` holds five thresholds, then five scales. The mean is ``deriv_sum[k, j] / (count[0] + 1)``, so cells
        without statistics are repaired. ``flagged[k]`` becomes the number of cells that are repaired.
        """

    def lstm_store_stats(self, value_sum: Out[DMat], deriv_sum: Out[DMat], self_repair_total: Out[DVec],
                         count: Out[DVec], sums: Mat, flagged: Vec, num_rows: Int) -> None:
        """Add ``sums`` of ``lstm_backprop`` and ``flagged`` of ``lstm_self_repair``, for ``num_rows`` rows.

        ``sums`` goes to ``value_sum`` and ``deriv_sum``, ``num_rows * flagged`` to ``self_repair_total``.
        """

    def gru_propagate(self, dst: Out[Mat], z: Mat, c_prev: Mat) -> None:
        """Compute GRU cells in place: ``dst`` = (a, anything) becomes (h, c), h = tanh(a), c = (1 - z) h + z c_prev."""

    def gru_sum_deriv(self, dst: Out[Mat], z: Mat, y: Mat, dy: Mat) -> None:
        """Compute ``dst = (dh + dc - z dc) (1 - h^2)``, the derivative at the argument of the tanh.

        ``y`` = (h, c) is the output of ``gru_propagate``, ``dy`` = (dh, dc) the derivative at that output.
        """

    def gru_gate_deriv(self, dz: Out[Mat], dc_prev: Out[Mat], z: Mat, c_prev: Mat, y: Mat, dy: Mat) -> None:
        """Add derivatives: ``dz += dc (c_prev - h)``, ``dc_prev += dc z``, with ``y`` = (h, c), ``dy`` = (dh, dc)."""

    def gru_repair(self, repair: Out[Vec], value_sum: Out[DVec], deriv_sum: Out[DVec], counters: Out[DVec],
                   h: Mat, threshold: F32, draw: F32Cell) -> None:
        """Add statistics of ``h``, and set ``repair[j]`` to 2 where the mean of 1 - h^2 is below ``threshold``, else 0.

        ``value_sum`` gets the columns' sums of h, ``deriv_sum`` those of 1 - h^2; means are over all rows so far. If
        ``draw`` is above 0.5, nothing is added and ``repair`` is 0.
        """


class Structural(Protocol):
    """Permutations, blocks and groups of columns; the clipping of derivatives, row by row."""

    def copy_cols(self, dst: Out[Mat], src: Mat, indexes: IVec) -> None:
        """Compute ``dst[i, j] = src[i, indexes[j]]``, a zero column where the index is -1. Kaldi: CopyCols."""

    def multiply_blocks(self, dst: Out[Mat], src: Mat) -> None:
        """Multiply blocks of columns: ``dst[i, j]`` = product over blocks b of ``src[i, b cols + j]``, cols of dst."""

    def multiply_blocks_backprop(self, dx: Out[Mat], x: Mat, dy: Mat) -> None:
        """Differentiate ``multiply_blocks``: each block of dx is ``dy`` times the product of the other blocks of x."""

    def add_sum_of_blocks(self, dst: Out[Mat], src: Mat, alpha: F32) -> None:
        """Add blocks of columns: ``dst[i, j] += alpha`` (sum over blocks b of ``src[i, b cols + j]``), cols of dst.

        Kaldi: AddMatBlocks.
        """

    def add_to_blocks(self, dst: Out[Mat], src: Mat, alpha: F32) -> None:
        """Compute ``dst[i, b cols + j] += alpha src[i, j]`` for all blocks b, cols of src. Kaldi: AddMatBlocks."""

    def sum_column_groups(self, dst: Out[Mat], src: Mat, groups: IMat) -> None:
        """Compute ``dst[i, j]`` = sum of ``src[i, groups[j, 0]:groups[j, 1]]``. Kaldi: SumColumnRanges."""

    def copy_to_column_groups(self, dst: Out[Mat], src: Mat, groups: IMat) -> None:
        """Compute ``dst[i, groups[j, 0]:groups[j, 1]] = src[i, j]``. Kaldi: CopyCols."""

    def copy_row_pieces(self, dst: Out[Mat], src: Mat, places: IMat) -> None:
        """Copy parts of rows: ``dst[i]`` = ``src[r, c:c + dst.shape[1]]`` with (r, c) = ``places[i]``.

        Kaldi: CopyRows of pointers.
        """

    def copy_to_row_pieces(self, dst: Out[Mat], src: Mat, places: IMat) -> None:
        """Set ``dst[r, c:c + src.shape[1]] = src[i]`` with (r, c) = ``places[i]``. Kaldi: CopyToRows."""

    def clip_elements(self, dx: Out[Mat], counters: Out[DVec], dy: Mat, limit: F32, store: Bool) -> None:
        """Compute ``dx`` = ``dy`` clipped to +-``limit``; ``dx`` may be ``dy``. If ``store``, ``counters[3] += 1``."""

    def clip_rows(self, dx: Out[Mat], counters: Out[DVec], dy: Mat, limit: F32, store: Bool) -> None:
        """Compute ``dx = dy``, with rows whose norm exceeds ``limit`` scaled down to it; ``dx`` may be ``dy``.

        If ``store``, ``counters`` counts: [0] clipped rows, among them rows of norm ``limit``; [1] rows; [3] calls.
        """

    def clip_gradient_repair(self, dx: Out[Mat], updated_counters: Out[DVec], x: Mat, counters: DVec,
                             proportion_threshold: F32, target: F32, scale: F32, draw: F32Cell) -> None:
        """Change ``dx`` so that the next step moves elements of ``x`` beyond +-``target`` back to it.

        Done only if ``draw`` is at most 0.5 and the proportion of clipped rows ``counters[0] / counters[1]`` exceeds
        ``proportion_threshold``; then ``updated_counters[2]`` is increased. The sum of the norms of ``dx``'s rows stays
        the same. Kaldi: ClipGradientComponent::RepairGradients.
        """

    def truncate_gradient(self, dx: Out[Mat], counters: Out[DVec], dy: Mat, zeroing: Vec, scale: F32,
                          clipping_threshold: F32, zeroing_threshold: F32, store: Bool) -> None:
        """Set ``dx = scale dy`` with the norm of rows limited to ``clipping_threshold``; ``dx`` may be ``dy``.

        A row is 0 if ``zeroing`` is -1 for it (the boundary between two chunks of time) and its norm exceeds
        ``zeroing_threshold``. If ``store``, ``counters`` counts: [0] clipped rows, [1] rows set to 0, [2] all rows,
        [3] rows at boundaries. Kaldi: BackpropTruncationComponent::Backprop.
        """


class Pooling(Protocol):
    """Norms and maxima over columns; sums over ranges of frames, their means and standard deviations."""

    def pnorm(self, dst: Out[Mat], src: Mat) -> None:
        """Compute ``dst[i, j]`` = the 2-norm of the j-th group of consecutive columns of ``src[i]``.

        Kaldi: GroupPnorm.
        """

    def pnorm_backprop(self, dx: Out[Mat], x: Mat, y: Mat, dy: Mat) -> None:
        """Differentiate ``pnorm``: ``dx = dy x / y`` with the norm y of each element's group; 0 where ``y`` is 0."""

    def max_pool(self, dst: Out[Mat], src: Mat, shape: IVec) -> None:
        """Compute the maxima of boxes; each row of ``src`` is a tensor (x, y, z), and has a column of ``dst`` per box.

        ``shape`` (12,) has four triples, each along x, y and z: the sizes of the tensor, the sizes of a box, the steps
        from box to box, the numbers of boxes.
        """

    def max_pool_backprop(self, dx: Out[Mat], x: Mat, y: Mat, dy: Mat, shape: IVec) -> None:
        """Add the derivative of ``max_pool`` to ``dx``: ``dy`` to each element of a box that equals the maximum."""

    def extract_statistics(self, dst: Out[Mat], src: Mat, ranges: IMat) -> None:
        """Add to ``dst[i]`` the number of rows in ``ranges[i]``, the sum of these rows of ``src``, that of squares.

        ``ranges[i]`` is (first, last + 1). Squares are left out if ``dst`` has only 1 + dim columns. Kaldi:
        StatisticsExtractionComponent::Propagate.
        """

    def extract_statistics_backprop(self, dx: Out[Mat], x: Mat, dy: Mat, rows: IVec) -> None:
        """Differentiate ``extract_statistics``: ``dx[r]`` = d_sum + 2 x[r] d_squares, both parts of ``dy[rows[r]]``."""

    def pool_statistics(self, dst: Out[Mat], src: Mat, ranges: IMat, num_log_counts: Int, stddevs: Bool,
                        variance_floor: F32) -> None:
        """Set ``dst[i]`` to the mean (and standard deviation) of the statistics in rows ``ranges[i]`` of ``src``.

        A row of ``src`` is a count, sums and perhaps sums of squares, as made by ``extract_statistics``. A row of
        ``dst`` is ``num_log_counts`` copies of the logarithm of the total count, then the means. If ``stddevs``, the
        second half of the means, those of squares, becomes standard deviations, with variances floored at
        ``variance_floor``. Kaldi: StatisticsPoolingComponent::Propagate.
        """

    def pool_statistics_backprop(self, dst: Out[Mat], y: Mat, dy: Mat, counts: Mat, num_log_counts: Int,
                                 stddevs: Bool) -> None:
        """Set ``dst`` to the derivative at the summed statistics, from the output ``y`` of ``pool_statistics`` and dy.

        ``counts`` (rows, 1) holds the total counts, or their logarithms if ``num_log_counts`` is not 0. Counts and the
        floor of the variance are treated as constants. ``y`` is read only if ``stddevs``.
        """


class Convolution(Protocol):
    """Copies of blocks of columns, for convolution; products of each row with rows shifted in time, for attention."""

    def copy_col_blocks(self, dst: Out[Mat], src: Mat, blocks: IVec) -> None:
        """Set block j of the columns of ``dst`` to block ``blocks[j]`` of ``src``, or to 0 for -1. Kaldi: CopyCols.

        ``dst`` has as many blocks as ``blocks`` has elements; the blocks of ``src`` have the same width.
        """

    def add_to_col_blocks(self, dst: Out[Mat], src: Mat, blocks: IVec) -> None:
        """Add block j of ``src`` to block ``blocks[j]`` of the columns of ``dst``, nothing for -1. Kaldi: AddCols.

        Several blocks of ``src`` may go to one of ``dst``; they are added in their order.
        """

    def copy_transposed(self, dst: Out[Mat], src: Mat) -> None:
        """Compute ``dst[i, j] = src[j, i]``. Kaldi: CopyFromMat with kTrans."""

    def add_shifted_dots(self, dst: Out[Mat], a: Mat, b: Mat, shift: Int, alpha: F32) -> None:
        """Compute ``dst[i, o] += alpha`` (``a[i]`` · ``b[i + o * shift]``). Kaldi: GetAttentionDotProducts."""

    def add_shifted_rows(self, dst: Out[Mat], scales: Mat, src: Mat, shift: Int, alpha: F32) -> None:
        """Compute ``dst[i] += alpha`` (sum over o of ``scales[i, o] src[i + o * shift]``), in the order of o.

        Kaldi: ApplyScalesToOutput.
        """

    def add_to_shifted_rows(self, dst: Out[Mat], scales: Mat, src: Mat, shift: Int, alpha: F32) -> None:
        """Compute ``dst[i + o * shift] += alpha scales[i, o] src[i]``, in the order of i.

        Kaldi: ApplyScalesToInput.
        """

    def attention_store_stats(self, count: Out[DVec], entropy: Out[DVec], posterior: Out[DMat], weights: Mat,
                              draw: IntCell) -> None:
        """Add statistics of attention ``weights`` (rows, heads * positions), unless ``draw`` is 0.

        ``count[0]`` gets the number of rows, ``entropy`` (heads,) the sums over rows of each head's entropy,
        ``posterior`` (heads, positions) the sums of the weights. Kaldi: RestrictedAttentionComponent::StoreStats.
        """
