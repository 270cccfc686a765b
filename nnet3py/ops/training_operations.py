"""Declarations of operations of training: objectives, natural gradient, constraints."""
from __future__ import annotations

from nnet3py.ops.arrays import F32, F64, Bool, DMat, DVec, Int, IVec, LVec, Mat, Out, Protocol, Vec


class Chain(Protocol):
    """Sums over the paths of the denominator graph in LF-MMI training; products with sparse supervision.

    ``src`` (T * num_sequences, pdfs) has the frames of all sequences: row t num_sequences + s is frame t of sequence s.
    Matrices of the denominator have a column for each sequence, with the rows of frame t below those of frame t - 1.
    ``sums`` (T + 1, sequences) has the sum over the states in each frame, ``leaky`` is the leaky-HMM coefficient. An
    "entry" is a pair of a pdf and the state that arcs with this pdf enter, see ``chain/den_graph.py``.
    """

    def chain_exp(self, dst: Out[Mat], src: Mat, limit: F32, first: Int, num_sequences: Int) -> None:
        """Compute exponentials of ``src``, with a column of ``dst`` for each sequence from ``first`` on.

        ``dst[t cols + p, s] = exp(src[t num_sequences + first + s, p])`` for pdf p of ``cols``. Elements of ``src``
        are clipped to +-``limit``; NaN becomes -``limit``.
        """

    def chain_forward(self, sums: Out[Mat], alpha: Out[Mat], arriving: Out[Mat], y: Mat, initial: Vec,
                      probs: Vec, arc_starts: LVec, sources: IVec, state_entries: LVec, entry_pdfs: IVec,
                      leaky: F32) -> None:
        """Run the forward pass of the leaky HMM over the denominator graph, from ``y`` made by ``chain_exp``.

        ``arriving`` gets, for each frame and entry, the sum over the arcs that lead to it; ``sums`` the sum over the
        states before each frame, by which the frame is scaled, and after the last. ``alpha`` is work space. Kaldi:
        DenominatorComputation::Forward.
        """

    def chain_backward(self, y: Out[Mat], arriving: Out[Mat], beta: Out[Mat], sums: Mat, initial: Vec,
                       probs: Vec, arc_starts: LVec, entries: IVec, pdf_starts: LVec, pdf_entries: IVec,
                       entry_pdfs: IVec, entry_states: IVec, leaky: F32) -> None:
        """Run the backward pass of the leaky HMM; ``y`` becomes the posterior of each pdf in each frame.

        ``arriving`` and ``sums`` come from ``chain_forward``; ``arriving`` is overwritten. ``beta`` is work space; its
        first rows become the backward sums of the states in frame 0. Kaldi: DenominatorComputation::Backward.
        """

    def chain_add_posteriors(self, dst: Out[Mat], src: Mat, first: Int, num_sequences: Int, alpha: F32) -> None:
        """Compute ``dst[t num_sequences + first + s, p] += alpha src[t cols + p, s]``."""

    def chain_out_of_range(self, dst: Out[Mat], src: Mat, limit: F32, scale: F32) -> None:
        """Compute ``dst -= scale (src - c)``, where c is ``src`` clipped to +-``limit``."""

    def chain_gather(self, dst: Out[Vec], src: Mat, rows: IVec, columns: IVec) -> None:
        """Compute ``dst[k] = src[rows[k], columns[k]]``."""

    def chain_log_probs(self, totals: Out[DMat], sums: Mat, initial: Vec, leaky: F32) -> None:
        """Compute ``totals[0, s]`` = the log-probability of sequence s, from the ``sums`` of ``chain_forward``."""

    def chain_checks(self, totals: Out[DMat], beta: Mat, y: Mat, sums: Mat, initial: Vec, num_pdfs: Int,
                     leaky: F32) -> None:
        """Compute two sums for frame 0 that are 1 but for rounding, to check forward and backward passes.

        ``totals[1, s]`` is the sum over states of alpha times beta, ``totals[2, s]`` the sum of the posteriors.
        """

    def copy_from_sparse(self, dst: Out[Mat], row_starts: LVec, columns: IVec, values: Vec) -> None:
        """Set ``dst`` to the sparse matrix (row_starts, columns, values); entries of the same place add up.

        The matrix has ``values[k]`` at (i, ``columns[k]``) for ``row_starts[i] <= k < row_starts[i + 1]``.
        """

    def sum_product_sparse(self, src: Mat, row_starts: LVec, columns: IVec, values: Vec) -> float:
        """Return the sum of ``src`` times the sparse matrix (row_starts, columns, values), elementwise, in float64."""


class Numerators(Protocol):
    """Sums over the paths of each sequence's own graph; ``chain/numerator.py`` describes the arrays of the graphs."""

    def chain_numerator(self, posteriors: Out[Vec], alpha: Out[DVec], beta: Out[DVec], sums: Out[DMat],
                        scores: Vec, costs: Vec, finals: Vec, sources: IVec, nexts: IVec, in_starts: LVec,
                        in_arcs: IVec, out_starts: LVec, out_arcs: IVec, level_starts: LVec, num_levels: Int,
                        weight: F32) -> None:
        """Compute the arcs' posteriors, times ``weight``, in graphs whose arcs go from one level of nodes to the next.

        ``sums[s]`` gets the log of the sum over all paths of graph s, computed forward and computed backward.
        ``alpha`` and ``beta`` are the forward and backward log-sums of the nodes. Kaldi: NumeratorComputation.
        """

    def lattice_accuracies(self, derivs: Out[Vec], alpha: Out[DVec], beta: Out[DVec], left: Out[DVec],
                           right: Out[DVec], sums: Out[DMat], scores: Vec, costs: Vec, finals: Vec, accuracies: Vec,
                           sources: IVec, nexts: IVec, in_starts: LVec, in_arcs: IVec, out_starts: LVec,
                           out_arcs: IVec, level_starts: LVec, num_levels: Int, weight: F32) -> None:
        """Compute the expected accuracy of the paths of each graph, and its derivatives by the arcs' scores.

        A path's accuracy is the sum of its arcs' ``accuracies``; ``derivs`` gets the derivatives times ``weight``. The
        graphs are those of ``chain_numerator``. ``sums[s]`` gets the log of the sum over all paths, computed forward
        and backward, then the expected accuracy, computed likewise. ``left`` and ``right`` are the expected accuracies
        of the partial paths to and from each node. Kaldi: LatticeForwardBackwardMpeVariants.
        """

    def chain_cyclic_numerator(self, posteriors: Out[Mat], alpha: Out[Mat], scales: Out[Mat], sums: Out[DMat],
                               scores: Mat, finals: Vec, in_weights: Vec, out_weights: Vec, in_starts: LVec,
                               in_sources: IVec, in_columns: IVec, out_starts: LVec, out_nexts: IVec,
                               out_columns: IVec, column_starts: LVec, column_arcs: IVec, sources: IVec,
                               first_states: LVec, first_columns: LVec, weight: F32) -> None:
        """Compute posteriors, times ``weight``, in FSTs that may have cycles; each arc takes one frame.

        ``sums[s, 0]`` is the log of the sum over all paths of FST s; -inf if no path has as many arcs as ``scores`` has
        frames, NaN if scores are not finite: the posteriors are undefined then. Kaldi: GenericNumeratorComputation.
        """


class NaturalGradient(Protocol):
    """Norms and small matrices of the natural gradient's preconditioners; ``ops/formulas/updates.py`` has the symbols.

    ``numbers`` (5,) is the state of a preconditioner.
    """

    def natural_gradient_size(self, numbers: Out[DVec], x: Mat, more: F64, further: Bool) -> None:
        """Set ``numbers[SIZE]`` to the sum of all ``x[i, j]^2`` plus ``more``, plus its old value if ``further``."""

    def natural_gradient_rest(self, numbers: Out[DVec], x: Mat) -> None:
        """Set ``numbers[REST]`` to the sum of all ``x[i, j]^2``, where ``x`` has the preconditioned rows."""

    def preconditioned_size(self, numbers: Out[DVec], cross: Mat, gram: Mat) -> None:
        """Set ``numbers[REST]``, the sum of squares of preconditioned rows, to SIZE minus a correction, in float64.

        ``cross`` is PᵀP of the projections P = X Wᵀ of the rows, ``gram`` is W Wᵀ. If the difference has too few
        digits, ``numbers[WANTED]`` becomes 1 and ``exact_size`` computes REST.
        """

    def exact_size(self, numbers: Out[DVec], x: Mat, projected: Mat, w: Mat, start: Int, ones: Bool) -> None:
        """Add to ``numbers[REST]`` the sum of squares of X - P W, if ``numbers[WANTED]`` is 1.

        ``x`` has the columns of X from ``start`` on; if ``ones``, a last column of ones of X is included. ``projected``
        is P = X Wᵀ.
        """

    def natural_gradient_factor(self, factor: Out[Vec], inner: DVec, outer: DVec, rate: F64, both: Bool) -> None:
        """Set ``factor[0]`` to ``rate`` times sqrt(SIZE / REST) of ``inner``, times that of ``outer`` if ``both``.

        ``inner`` and ``outer`` are the ``numbers`` of two preconditioners. A factor is 0 if rows could not be used.
        """

    def natural_gradient_fault(self, numbers: DVec) -> int:
        """Return why rows cannot be preconditioned: 1 not finite or too large, 2 TRACE not finite; 0 if they can."""

    def natural_gradient_moments(self, z: Out[Mat], numbers: Out[DVec], inverse: Out[Vec], square: Mat,
                                 cross: Mat, spectrum: Vec, num_rows: F64, dim: F64, eta: F64, alpha: F64) -> None:
        """Set ``numbers[TRACE]`` to the trace of Z, at least 1, and ``z`` to Z / TRACE.

        Z = Q T² Qᵀ, where T is the new estimate. ``square`` is J Jᵀ and ``cross`` W Jᵀ; ``inverse`` becomes the inverse
        lengths of W's rows. ``eta`` is the forgetting factor, ``alpha`` the smoothing factor.
        """

    def natural_gradient_directions(self, mix: Out[Mat], kept: Out[Vec], lengths: Out[Vec],
                                    spectrum: Out[Vec], numbers: Out[DVec], order: Out[Vec], inverse: Vec,
                                    eigenvalues: Vec, vectors: Mat, num_rows: F64, dim: F64, eta: F64,
                                    alpha: F64) -> None:
        """Compute ``mix`` and ``kept`` of the new directions W' = ``mix`` (J + diag(``kept``) W), and the new spectrum.

        ``lengths`` gets the lengths of the rows of W'. ``numbers[SUSPECT]`` becomes 1 if their orthogonality must be
        checked, else 0; ``numbers[TRACE]`` becomes NaN if an eigenvalue is not finite. ``eigenvalues``, in any order,
        and the rows of ``vectors``, the eigenvectors, are those of Z / TRACE. ``inverse`` comes from
        ``natural_gradient_moments``; ``order`` is work space.
        """


class SmallMatrices(Protocol):
    """Small symmetric matrices: eigenvectors, orthogonalization of rows, the orthonormal constraint."""

    def symmetric_eigen(self, values: Out[Vec], vectors: Out[Mat], matrix: Out[Mat], work: Out[Mat]) -> None:
        """Find the eigenvalues and eigenvectors of a symmetric matrix, which may be destroyed.

        ``values`` gets the eigenvalues in any order, the rows of ``vectors`` the eigenvectors; if the matrix has NaN or
        infinity, ``values`` is NaN. ``work`` (3, R) is work space for a matrix of R rows.
        """

    def orthogonalize(self, w: Out[Mat], gram: Out[Mat], square: Out[Mat], moment: Out[Mat], lengths: Vec,
                      numbers: DVec) -> None:
        """Make the rows of ``w`` orthogonal again if rounding errors have grown, with ``lengths`` as their lengths.

        Nothing is done unless ``numbers[SUSPECT]`` is 1. ``gram`` (R, R) is w wᵀ, and is updated with ``w``;
        ``square`` (R, R) and ``moment`` (R, D) are work space.
        """

    def orthonormal_step(self, p: Out[Mat], ratio: Out[Vec], constraint: F32) -> None:
        """Replace ``p`` = M Mᵀ by f (p - s² I), so that the caller's M -= p M is a step towards M Mᵀ = s² I.

        ``ratio[0]`` gets a measure of how unequal the singular values are, see ``orthonormal_move``. Kaldi:
        ConstrainOrthonormalInternal.
        """


CHAIN_PARTIAL_SUMS = 128     # most blocks of states whose partial sums a GPU keeps


def chain_work_rows(num_states: int) -> int:
    """Return the number of rows of the work space ``alpha`` or ``beta``, in which a GPU keeps three frames.

    A frame has a sum for each state, and partial sums over states.
    """
    return 3 * (num_states + CHAIN_PARTIAL_SUMS)
