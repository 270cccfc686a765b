"""Declarations of operations of training: objectives, natural gradient, constraints."""
from __future__ import annotations

from nnet3py.ops.arrays import F32, F64, Bool, DMat, DVec, Int, IVec, LVec, Mat, Out, Protocol, Vec


class Chain(Protocol):
    """Outputs against sparse supervision; sums over paths of LF-MMI training, whose frames lie below each other."""

    def chain_exp(self, dst: Out[Mat], src: Mat, limit: F32, first: Int, num_sequences: Int) -> None:
        """Set ``dst[t cols + p, s] = exp(src[t num_sequences + first + s, p])``, src within +-limit, NaN as -limit.
        """

    def chain_forward(self, sums: Out[Mat], alpha: Out[Mat], arriving: Out[Mat], y: Mat, initial: Vec,
                      probs: Vec, arc_starts: LVec, sources: IVec, state_entries: LVec, entry_pdfs: IVec,
                      leaky: F32) -> None:
        """Compute sums over paths of the denominator graph: to each entry and frame, and of each frame, with leaks.

        Kaldi: DenominatorComputation::Forward.
        """

    def chain_backward(self, y: Out[Mat], arriving: Out[Mat], beta: Out[Mat], sums: Mat, initial: Vec,
                       probs: Vec, arc_starts: LVec, entries: IVec, pdf_starts: LVec, pdf_entries: IVec,
                       entry_pdfs: IVec, entry_states: IVec, leaky: F32) -> None:
        """Run the leaky backward pass, which turns ``y`` into the posterior of each pdf in each frame.

        ``arriving`` is used up; ``beta`` begins with the sums of frame 0. Kaldi: DenominatorComputation::Backward.
        """

    def chain_add_posteriors(self, dst: Out[Mat], src: Mat, first: Int, num_sequences: Int, alpha: F32) -> None:
        """Compute ``dst[t num_sequences + first + s, p] += alpha src[t cols + p, s]``."""

    def chain_out_of_range(self, dst: Out[Mat], src: Mat, limit: F32, scale: F32) -> None:
        """Compute ``dst -= scale`` times how far ``src`` lies above ``limit``, or, negative, below ``-limit``."""

    def chain_gather(self, dst: Out[Vec], src: Mat, rows: IVec, columns: IVec) -> None:
        """Compute ``dst[k] = src[rows[k], columns[k]]``."""

    def chain_log_probs(self, totals: Out[DMat], sums: Mat, initial: Vec, leaky: F32) -> None:
        """Compute ``totals[0, s]`` = the log-probability of sequence s, from the ``sums`` of ``chain_forward``."""

    def chain_checks(self, totals: Out[DMat], beta: Mat, y: Mat, sums: Mat, initial: Vec, num_pdfs: Int,
                     leaky: F32) -> None:
        """``totals[1, s]`` = sum of alpha beta, ``totals[2, s]`` = sum of posteriors, both in frame 0: 1, or nearly."""

    def copy_from_sparse(self, dst: Out[Mat], row_starts: LVec, columns: IVec, values: Vec) -> None:
        """Set ``dst`` to the sparse matrix (row_starts, columns, values); entries of the same place add up.

        The matrix has ``values[k]`` at (i, ``columns[k]``) for ``row_starts[i] <= k < row_starts[i + 1]``.
        """

    def sum_product_sparse(self, src: Mat, row_starts: LVec, columns: IVec, values: Vec) -> float:
        """Return the sum of ``src`` times the sparse matrix (row_starts, columns, values), elementwise, in float64."""


class Numerators(Protocol):
    """Sums over the paths of each sequence's own graph."""

    def chain_numerator(self, posteriors: Out[Vec], alpha: Out[DVec], beta: Out[DVec], sums: Out[DMat],
                        scores: Vec, costs: Vec, finals: Vec, sources: IVec, nexts: IVec, in_starts: LVec,
                        in_arcs: IVec, out_starts: LVec, out_arcs: IVec, level_starts: LVec, num_levels: Int,
                        weight: F32) -> None:
        """Compute sums over the paths of graphs whose nodes lie in levels, with arcs from each level to the next.

        ``sums[s]`` are the logs of the sums over all paths of graph s, of the forward and the backward pass. Kaldi:
        NumeratorComputation.
        """

    def lattice_accuracies(self, derivs: Out[Vec], alpha: Out[DVec], beta: Out[DVec], left: Out[DVec],
                           right: Out[DVec], sums: Out[DMat], scores: Vec, costs: Vec, finals: Vec, accuracies: Vec,
                           sources: IVec, nexts: IVec, in_starts: LVec, in_arcs: IVec, out_starts: LVec,
                           out_arcs: IVec, level_starts: LVec, num_levels: Int, weight: F32) -> None:
        """Compute the expected sum of ``accuracies`` of a path's arcs, and its derivatives times ``weight``.

        The graphs are those of ``chain_numerator``; derivatives are with respect to arcs' scores. ``sums[s]``
        holds the logs of the sums over all paths and the expected accuracies, each forward and backward. Kaldi:
        LatticeForwardBackwardMpeVariants.
        """

    def chain_cyclic_numerator(self, posteriors: Out[Mat], alpha: Out[Mat], scales: Out[Mat], sums: Out[DMat],
                               scores: Mat, finals: Vec, in_weights: Vec, out_weights: Vec, in_starts: LVec,
                               in_sources: IVec, in_columns: IVec, out_starts: LVec, out_nexts: IVec,
                               out_columns: IVec, column_starts: LVec, column_arcs: IVec, sources: IVec,
                               first_states: LVec, first_columns: LVec, weight: F32) -> None:
        """Compute sums over paths of FSTs that may have cycles, a frame for each arc.

        ``sums[s, 0]`` is the log of the sum over all paths; minus infinity where no path is as long as the scores,
        and NaN where scores are not finite: then the posteriors are undefined. Kaldi: GenericNumeratorComputation.
        """


class NaturalGradient(Protocol):
    """Sizes, the factor, and the small matrices of the natural gradient's update."""

    def natural_gradient_size(self, numbers: Out[DVec], x: Mat, more: F64, further: Bool) -> None:
        """``numbers[SIZE]`` = the sum of all ``x[i, j]^2`` plus ``more``, and plus its old value if ``further``."""

    def natural_gradient_rest(self, numbers: Out[DVec], x: Mat) -> None:
        """Compute ``numbers[REST]`` = the sum of all ``x[i, j]^2``: of rows that have been preconditioned."""

    def preconditioned_size(self, numbers: Out[DVec], cross: Mat, gram: Mat) -> None:
        """Compute the sum of squares of rows after preconditioning, as a difference from the sum before, in float64.

        ``cross`` is the product PᵀP of their projections P = X Wᵀ, ``gram`` is W Wᵀ. If too few digits are left,
        ``numbers[WANTED]`` becomes 1, for ``exact_size``.
        """

    def exact_size(self, numbers: Out[DVec], x: Mat, projected: Mat, w: Mat, start: Int, ones: Bool) -> None:
        """Add to ``numbers[REST]`` the sum of squares of X - P W, if ``numbers[WANTED]`` is 1.

        ``x`` has X's columns from ``start`` on; with ``ones``, X has a last column of ones, which counts, too.
        """

    def natural_gradient_factor(self, factor: Out[Vec], inner: DVec, outer: DVec, rate: F64, both: Bool) -> None:
        """Set ``factor[0]`` to ``rate`` times what restores the rows' size: of ``inner``, and of ``outer`` if ``both``.

        That of a preconditioner with these ``numbers`` is the root of size over rest; 0 for unusable rows.
        """

    def natural_gradient_fault(self, numbers: DVec) -> int:
        """Return the fault of the rows: 0 none, 1 not finite or too large to square, 2 too large for the moments."""

    def natural_gradient_moments(self, z: Out[Mat], numbers: Out[DVec], inverse: Out[Vec], square: Mat,
                                 cross: Mat, spectrum: Vec, num_rows: F64, dim: F64, eta: F64, alpha: F64) -> None:
        """``z`` = Z / ``numbers[TRACE]``, the new estimate along the old directions; TRACE is its trace, at least 1.

        ``square`` is J Jᵀ and ``cross`` W Jᵀ, with J the moment of rows and their projections; ``inverse`` becomes
        the inverse lengths of W's rows.
        """

    def natural_gradient_directions(self, mix: Out[Mat], kept: Out[Vec], lengths: Out[Vec],
                                    spectrum: Out[Vec], numbers: Out[DVec], order: Out[Vec], inverse: Vec,
                                    eigenvalues: Vec, vectors: Mat, num_rows: F64, dim: F64, eta: F64,
                                    alpha: F64) -> None:
        """Compute how the new W is made of J and the old W: W' = ``mix`` (J + diag(``kept``) W).

        ``spectrum`` becomes the new one. ``lengths`` are those of the rows of W'; ``numbers[SUSPECT]`` becomes 1 if
        their orthogonality has to be checked, else 0, ``numbers[TRACE]`` NaN if an eigenvalue is not finite.
        ``eigenvalues``, in any order, and the rows of ``vectors`` are those of Z / trace; ``order`` is work space,
        ``inverse`` a result of ``natural_gradient_moments``.
        """


class SmallMatrices(Protocol):
    """Small symmetric matrices: eigenvectors, rows to be orthogonal, the orthonormal constraint."""

    def symmetric_eigen(self, values: Out[Vec], vectors: Out[Mat], matrix: Out[Mat], work: Out[Mat]) -> None:
        """Find the eigenvalues and eigenvectors of a symmetric matrix, which may be destroyed.

        ``values`` are the eigenvalues, in no order, the rows of ``vectors`` the eigenvectors; with NaN or infinity in
        the matrix, ``values`` are NaN. ``work`` is work space, three rows of the matrix's size.
        """

    def orthogonalize(self, w: Out[Mat], gram: Out[Mat], square: Out[Mat], moment: Out[Mat], lengths: Vec,
                      numbers: DVec) -> None:
        """Make the rows of ``w``, divided by ``lengths``, orthonormal again if rounding has spoiled that; in place.

        Nothing is done unless ``numbers[SUSPECT]`` is 1. ``gram`` (R, R) is w wᵀ, before and afterwards;
        ``square`` (R, R) and ``moment`` (R, D) are work space.
        """

    def orthonormal_step(self, p: Out[Mat], ratio: Out[Vec], constraint: F32) -> None:
        """Compute ``p`` = f (p - s² I), such that M -= p M is a step towards M Mᵀ = s² I; before, p is M Mᵀ.

        ``ratio[0]`` says how unequal the singular values are, see ``orthonormal_move``. Kaldi:
        ConstrainOrthonormalInternal.
        """


CHAIN_PARTIAL_SUMS = 128     # most blocks of states whose partial sums a GPU keeps


def chain_work_rows(num_states: int) -> int:
    """Return the rows of ``alpha`` and ``beta``: three frames of sums by state, and of partial sums over states."""
    return 3 * (num_states + CHAIN_PARTIAL_SUMS)
