"""Declarations of operations on matrices and vectors: move, add, multiply, sum, fill with random numbers."""
from __future__ import annotations

from nnet3py.ops.arrays import F32, Bool, IMat, Int, IntCell, IVec, LVec, Mat, Out, Protocol, RowVec, Vec


class Rows(Protocol):
    """Copying, scaling and adding rows: operations that command lists contain besides calls of components."""

    def copy_rows(self, dst: Out[Mat], src: Mat, indexes: IVec, alpha: F32) -> None:
        """Compute ``dst[i] = alpha src[indexes[i]]``, a zero row where the index is -1. Kaldi: CopyRows."""

    def add_rows(self, dst: Out[Mat], src: Mat, indexes: IVec, alpha: F32) -> None:
        """Compute ``dst[i] += alpha src[indexes[i]]``, nothing where the index is -1. Kaldi: AddRows."""

    def copy_rows_multi(self, dst: Out[Mat], arena: Vec, offsets: LVec, alpha: F32) -> None:
        """Compute ``dst[i] = alpha`` (the row that starts at ``arena[offsets[i]]``), a zero row for offset -1.

        Kaldi: CopyRows of pointers.
        """

    def add_rows_multi(self, dst: Out[Mat], arena: Vec, offsets: LVec, alpha: F32) -> None:
        """Compute ``dst[i] += alpha`` (the row that starts at ``arena[offsets[i]]``); offset -1 adds nothing.

        Kaldi: AddRows of pointers.
        """

    def copy_to_rows_multi(self, arena: Out[Vec], offsets: LVec, src: Mat) -> None:
        """Set the row that starts at ``arena[offsets[i]]`` to ``src[i]``, nothing where the offset is -1.

        Kaldi: CopyToRows.
        """

    def add_to_rows_multi(self, arena: Out[Vec], offsets: LVec, src: Mat, alpha: F32) -> None:
        """Add ``alpha src[i]`` to the row at ``arena[offsets[i]]``; the rows are distinct. Kaldi: AddToRows."""

    def add_row_ranges(self, dst: Out[Mat], src: Mat, ranges: IMat, alpha: F32) -> None:
        """Compute ``dst[i] += alpha`` (sum of ``src[r]``, ``ranges[i, 0] <= r < ranges[i, 1]``), in the order of r.

        (-1, -1) is an empty range. Kaldi: AddRowRanges.
        """


class Elementwise(Protocol):
    """Elements computed from the elements at the same place, by a formula in ``formulas/elements.py``."""

    def set_const(self, dst: Out[Mat], value: F32) -> None:
        """Set every element of ``dst`` to ``value``. Kaldi: Set, SetZero."""

    def copy_mat(self, dst: Out[Mat], src: Mat, alpha: F32) -> None:
        """Compute ``dst = alpha src``; ``dst`` may be ``src``. Kaldi: CopyFromMat, then Scale."""

    def add_mat(self, dst: Out[Mat], src: Mat, alpha: F32) -> None:
        """Compute ``dst += alpha src``. Kaldi: AddMat."""

    def sum_mats(self, dst: Out[Mat], a: Mat, b: Mat, alpha: F32, beta: F32) -> None:
        """Compute ``dst = alpha a + beta b``; ``dst`` may be ``a`` or ``b``. Kaldi: CopyFromMat, Scale, then AddMat."""

    def add_vec_to_rows(self, dst: Out[Mat], vec: Vec, alpha: F32, beta: F32) -> None:
        """Compute ``dst[i] = alpha vec + beta dst[i]``. Kaldi: AddVecToRows, CopyRowsFromVec."""

    def mul_cols_vec(self, dst: Out[Mat], src: Mat, vec: Vec) -> None:
        """Compute ``dst[i, j] = src[i, j] vec[j]``; ``dst`` may be ``src``. Kaldi: MulColsVec."""

    def mul_rows_vec(self, dst: Out[Mat], src: Mat, vec: RowVec) -> None:
        """Compute ``dst[i, j] = src[i, j] vec[i]``; ``dst`` may be ``src``. Kaldi: MulRowsVec."""

    def add_mat_diag_vec(self, dst: Out[Mat], src: Mat, vec: Vec, alpha: F32, beta: F32) -> None:
        """Compute ``dst[i, j] = alpha src[i, j] vec[j] + beta dst[i, j]``. Kaldi: AddMatDiagVec."""

    def add_diag_vec_mat(self, dst: Out[Mat], vec: RowVec, src: Mat, alpha: F32, beta: F32) -> None:
        """Compute ``dst[i, j] = alpha vec[i] src[i, j] + beta dst[i, j]``. Kaldi: AddDiagVecMat."""

    def mul_elements(self, dst: Out[Mat], a: Mat, b: Mat) -> None:
        """Compute ``dst = a * b``, element by element; ``dst`` may be ``a`` or ``b``. Kaldi: MulElements."""

    def add_mat_elements(self, dst: Out[Mat], a: Mat, b: Mat, alpha: F32, beta: F32) -> None:
        """Compute ``dst = alpha a * b + beta dst``, element by element. Kaldi: AddMatMatElements."""

    def sigmoid(self, dst: Out[Mat], src: Mat) -> None:
        """Compute ``dst = 1 / (1 + exp(-src))``; ``dst`` may be ``src``. Kaldi: Sigmoid."""

    def tanh(self, dst: Out[Mat], src: Mat) -> None:
        """Compute ``dst = tanh(src)``; ``dst`` may be ``src``. Kaldi: Tanh."""

    def relu(self, dst: Out[Mat], src: Mat) -> None:
        """Compute ``dst = max(src, 0)``; ``dst`` may be ``src``; NaN stays. Kaldi: ApplyFloor."""

    def sigmoid_backprop(self, dx: Out[Mat], y: Mat, dy: Mat, repair: Vec) -> None:
        """Compute ``dx = dy y (1 - y) - repair (2 y - 1)``; ``repair`` has an element for each column.

        Kaldi: DiffSigmoid.
        """

    def tanh_backprop(self, dx: Out[Mat], y: Mat, dy: Mat, repair: Vec) -> None:
        """Compute ``dx = dy (1 - y^2) - repair y``; ``repair`` has an element for each column. Kaldi: DiffTanh."""

    def relu_backprop(self, dx: Out[Mat], y: Mat, dy: Mat, repair: Vec) -> None:
        """Compute ``dx = (dy where y > 0, else 0) - repair``; ``repair`` has an element for each column.

        Kaldi: Heaviside.
        """

    def dropout_elements(self, dst: Out[Mat], src: Mat, draws: Mat, proportion: F32) -> None:
        """Compute ``dst = src`` where ``draws`` (uniform, of the same size) is above ``proportion``, else 0."""

    def dropout_backprop(self, dx: Out[Mat], x: Mat, y: Mat, dy: Mat) -> None:
        """Compute ``dx = dy y / x``, and ``dy`` where ``x`` is 0; ``dx`` may be ``dy``. Kaldi: AddMatMatDivMat."""

    def binary_mask(self, mask: Out[Mat], proportion: F32, kept: F32) -> None:
        """Replace the uniform numbers in ``mask`` by ``kept`` where they are above ``proportion``, else by 0."""

    def continuous_mask(self, mask: Out[Mat], proportion: F32) -> None:
        """Replace the uniform numbers u in ``mask`` by 4 proportion u + 1 - 2 proportion."""

    def scale_and_offset(self, dst: Out[Mat], src: Mat, scales: Vec, offsets: Vec, smallest: F32) -> None:
        """Compute ``dst[i, j] = s[j] src[i, j] + offsets[j]``; ``dst`` may be ``src``.

        ``s`` is ``scales`` with absolute values below ``smallest`` raised to it.
        """

    def scale_gradient_from_output(self, dst: Out[Mat], y: Mat, dy: Mat, scales: Vec, offsets: Vec,
                                   smallest: F32) -> None:
        """Compute ``dst[i, j] = dy[i, j] (y[i, j] - offsets[j]) / s[j]``, with s as in ``scale_and_offset``."""


class Products(Protocol):
    """Products of matrices; additions with a factor in device memory."""

    def add_mat_mat(self, dst: Out[Mat], a: Mat, b: Mat, alpha: F32, beta: F32, trans_a: Bool = False,
                    trans_b: Bool = False) -> None:
        """Compute ``dst = alpha op(a) op(b) + beta dst``, where op transposes if ``trans_…`` is True. Kaldi: AddMatMat.

        With beta 0 the old content of ``dst`` has no effect, not even NaN. ``dst`` overlaps neither ``a`` nor ``b``.
        """

    def affine(self, dst: Out[Mat], src: Mat, weights: Mat, bias: Vec) -> None:
        """Compute ``dst[i] = weights src[i] + bias``."""

    def spliced_affine(self, dst: Out[Mat], sums: Out[Mat], src: Mat, weights: Mat, bias: Vec, scale: Vec,
                       offset: Vec, starts: IVec, stride: Int, floor: F32) -> None:
        """Set ``dst[i] = max(floor, bias + sum over p of W_p src[starts[p] + stride i]) scale + offset``, in one pass.

        W_p is block p of the columns of ``weights``. ``scale`` and ``offset`` have an element for each column of
        ``dst``, or are empty for no scaling. ``sums`` gets the ``column_moments`` of the values between floor and
        scaling, or is empty. ``floor`` may be -inf.
        """

    def add_mat_by(self, dst: Out[Mat], src: Mat, factor: Vec) -> None:
        """Compute ``dst += factor[0] src``; for factor 0 nothing is added, even if ``src`` holds NaN."""

    def add_mat_mat_by(self, dst: Out[Mat], a: Mat, b: Mat, factor: Vec) -> None:
        """Compute ``dst += factor[0] aᵀ b``; for factor 0 nothing is added, even if ``a`` or ``b`` holds NaN."""

    def add_row_sum_by(self, dst: Out[Vec], src: Mat, factor: Vec) -> None:
        """Compute ``dst[j] += factor[0] (sum over i of src[i, j])``; for factor 0 nothing is added, even for NaN."""


class Reductions(Protocol):
    """Sums over rows or everything."""

    def add_row_sum(self, dst: Out[Vec], src: Mat, alpha: F32, beta: F32) -> None:
        """Compute ``dst[j] = alpha (sum over i of src[i, j]) + beta dst[j]``. Kaldi: AddRowSumMat."""

    def add_row_sum_product(self, dst: Out[Vec], a: Mat, b: Mat, alpha: F32, beta: F32) -> None:
        """Compute ``dst[j] = alpha (sum over i of a[i, j] b[i, j]) + beta dst[j]``.

        Kaldi: AddDiagMatMat of the transposes.
        """

    def sum_product(self, a: Mat, b: Mat) -> float:
        """Return the sum of all ``a[i, j] b[i, j]``, in float64. Kaldi: TraceMatMat(a, b, trans)."""


class Random(Protocol):
    """Random numbers for ``ops.random``, and dropout masks made from uniform numbers that the caller drew."""

    def philox_uniform(self, dst: Out[Mat], seed: Int, block: Int, minibatch: IntCell, component: Int) -> None:
        """Fill ``dst``, row by row, with numbers in [0, 1) from the blocks of the random stream from ``block`` on."""

    def dropout_rows(self, dst: Out[Mat], src: Mat, draws: Mat, proportion: F32) -> None:
        """Compute ``dst[i] = src[i]`` where ``draws[i, 0]`` (uniform) is above ``proportion``, else a zero row."""

    def complementary_masks(self, mask: Out[Mat], draws: Mat, proportion: F32) -> None:
        """Set each row of ``mask`` from a uniform number u: (1 if u > ``proportion``, 1 if u < 1 - ``proportion``)."""

    def specaugment_mask(self, mask: Out[Mat], draws: Mat, max_zeroed: Int) -> None:
        """Set each row of ``mask`` to ones, with at most ``max_zeroed`` zeros in one or several random bands.

        ``draws`` (uniform) has a column for the number of zeros, one for the start of the band, and one for each
        further band: at a random place half of the row is reversed, which may cut a band in two.
        """

    def time_mask(self, mask: Out[Vec], draws: Mat, rows: IVec, starts: IVec, start_kept: F32,
                  longest_zeroed: Int, longest_kept: Int) -> None:
        """Set alternating stretches of ones and zeros in each sequence of frames, ``rows[starts[s]:starts[s + 1]]``.

        A sequence begins with ones with probability ``start_kept``; lengths are uniform from 1 to the longest, and a
        stretch that reaches beyond the end is cut off. ``draws`` (1, rows + sequences) holds uniform numbers; sequence
        s uses those from ``starts[s] + s`` on. Kaldi: SpecAugmentTimeMaskComponent::GetMemo.
        """

    def mul_mask_rows(self, dst: Out[Mat], src: Mat, mask: Mat, indexes: IVec) -> None:
        """Compute ``dst[i] = src[i] mask[indexes[i]]``, elementwise; ``dst`` may be ``src``. Kaldi: MulRows."""
