"""The LF-MMI objective: of one output (``ComputeChainObjfAndDeriv`` in Kaldi), and of all outputs of chain examples.

The objective of an output is its numerator minus its denominator. For an output NAME the network may have another,
NAME-xent, which is trained with cross-entropy on the numerator's posteriors (``xent_regularize``).
"""
from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nnet3py.chain.den_graph import DenominatorGraph, read_den_graph
from nnet3py.chain.denominator import LIMIT, DenominatorComputation, scratch_doubles
from nnet3py.chain.numerator import check_supervision, queued_numerator
from nnet3py.egs.chain_example import NnetChainExample, NnetChainSupervision, Supervision
from nnet3py.egs.example import NnetIo
from nnet3py.errors import Nnet3Error, ShapeError, within
from nnet3py.formats.general import check_finite, to_dense
from nnet3py.log import kaldi_place
from nnet3py.network.nnet import Nnet
from nnet3py.random_sequence import unsigned
from nnet3py.runtime.computer import Computer
from nnet3py.training.example_computation import HIDDEN, XENT
from nnet3py.training.options import ChainOptions

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

logger = logging.getLogger(__name__)


FAILED_OBJECTIVE = -10.0     # per frame, for a minibatch whose computation failed
RANGE_CHECK_INTERVAL = 100   # on average, minibatches between two checks of the output's range

_PLACE = kaldi_place("ComputeChainObjfAndDeriv", "chain-training.cc", 278)
_RANGE = kaldi_place("DenominatorComputation", "chain-denominator.cc", 67)


class ChainObjective(NamedTuple):
    """Sums over a minibatch: the objective, the l2 term of the output, and the weight (usually the number of frames).
    """

    value: float
    l2_term: float
    weight: float


class ChainObjectiveComputation:
    """Computation of LF-MMI objectives with one denominator graph.

    Parameters
    ----------
    ops : the device's operations
    graph : the denominator graph, with as many pdfs as the output has columns
    options : see :class:`ChainOptions`
    seed : seed of the random choice of half of the minibatches, in which outputs out of range are penalized
    """

    def __init__(self, ops: Ops, graph: DenominatorGraph, options: ChainOptions, seed: int = 0) -> None:
        self.ops, self.options = ops, options
        self._denominator = DenominatorComputation(ops, graph, options.leaky_hmm_coefficient)
        self._draws = np.random.Generator(np.random.Philox(key=unsigned(seed)))

    def compute(self, supervision: Supervision, output: DeviceArray, deriv: DeviceArray | None = None,
                numerator_deriv: DeviceArray | None = None) -> ChainObjective:
        """Compute the objective of one output, and its derivative into ``deriv``.

        Raises ShapeError if supervision and output have different numbers of frames or pdfs, and Nnet3Error if the
        supervision is not normalized.

        Parameters
        ----------
        supervision : the supervision of all sequences of the minibatch
        output : device matrix (rows, pdfs); row t S + s is frame t of sequence s, of S sequences
        deriv : device matrix (rows, pdfs) to set, or None where no derivative is wanted
        numerator_deriv : device matrix (rows, pdfs) to set to the numerator's part of the derivative, or None

        A computation that fails gets Kaldi's -10 for each frame, a warning, and derivatives of 0.
        """
        ops, options = self.ops, self.options
        check_supervision(supervision, tuple(output.shape))
        weight = supervision.weight * supervision.num_sequences * supervision.frames_per_sequence
        cyclic = supervision.is_end_to_end
        scale = -supervision.weight * (1.0 + options.lwf_den_scale if cyclic else 1.0)
        with queued_numerator(ops, supervision, output) as queued:
            for matrix in (deriv, numerator_deriv):
                if matrix is not None:
                    queued.set_posteriors(matrix)
            results = scratch_doubles(ops, 3, supervision.num_sequences)
            self._denominator.queue(results, output, supervision.num_sequences, deriv, scale)
            sums, results = ops.read_later(queued.sums), ops.read_later(results)
            log_prob, numerator_ok = queued.result(sums())
        denominator = self._denominator.result(results(), deriv is not None)
        value = log_prob - supervision.weight * denominator.log_prob
        if cyclic:
            logger.info(f"Numerator objf: {log_prob / weight if weight else math.nan:.6g}", extra=_PLACE)
        if self._draws.integers(0, RANGE_CHECK_INTERVAL) == 0:
            self._check_range(output)
        if deriv is not None and options.out_of_range_regularize and self._draws.integers(0, 2) == 0:
            ops.chain_out_of_range(deriv, output, LIMIT, 2.0 * options.out_of_range_regularize)
        if not (math.isfinite(value) and denominator.ok and numerator_ok):
            self._warn(value, denominator.ok, numerator_ok if cyclic else None)
            value = FAILED_OBJECTIVE * weight
            for matrix in (deriv, numerator_deriv):
                if matrix is not None:
                    ops.set_const(matrix, 0.0)
        l2_term = 0.0
        if options.l2_regularize and (numerator_ok or not cyclic):
            factor = supervision.weight * options.l2_regularize
            l2_term = -0.5 * factor * ops.sum_product(output, output)
            if deriv is not None:
                ops.add_mat(deriv, output, -factor)
        return ChainObjective(value, l2_term, weight)

    def _check_range(self, output: DeviceArray) -> None:
        values = self.ops.copy_out(output)
        lowest, highest = float(values.min()), float(values.max())
        if lowest < -LIMIT or highest > LIMIT:
            logger.warning(f"Nnet outputs {lowest:.6g}, {highest:.6g} outside the range [-30,30], derivs may be "
                           "inaccurate.", extra=_RANGE)

    @staticmethod
    def _warn(value: float, denominator_ok: bool, numerator_ok: bool | None) -> None:
        returned = f"denominator computation (if done) returned {str(denominator_ok).lower()}"
        if numerator_ok is not None:
            returned += f" and numerator computation returned {str(numerator_ok).lower()}"
        logger.warning(f"Objective function is {value:.6g} and {returned}, setting objective function to "
                       f"{FAILED_OBJECTIVE:g} per frame.", extra=_PLACE)


LWF_POSTERIORS = HIDDEN + "LWF-posteriors"    # input with posteriors of another model, for learning without forgetting

Graphs = Callable[[str], DenominatorGraph]    # of an output's name


def one_graph(nnet: Nnet, den_fst: str) -> Graphs:
    """Return a function that returns the graph in the file ``den_fst`` for every output.

    Raises Nnet3Error if the network has no node ``output``, or the file holds no graph with its pdfs.
    """
    num_pdfs = nnet.output_dim("output") if "output" in nnet.node_names else -1
    if num_pdfs < 0:
        raise Nnet3Error("the network has no output node named 'output', which chain training needs",
                         "networks for several languages are trained by nnet3-chain-train2")
    graph = read_den_graph(den_fst, num_pdfs)
    return lambda name: graph


def graph_folder(nnet: Nnet, folder: str) -> Graphs:
    """Return a function that returns the graph in ``FOLDER/LANGUAGE.den.fst`` for ``output-LANGUAGE``, read once."""
    graphs: dict[str, DenominatorGraph] = {}

    def find(name: str) -> DenominatorGraph:
        if name not in graphs:
            graphs[name] = read_den_graph(f"{folder}/{name.removeprefix('output-')}.den.fst", nnet.output_dim(name))
        return graphs[name]

    return find


class OutputSums(NamedTuple):
    """Sums over the frames of one output: weight, objective, and auxiliary objective (the l2 term)."""

    name: str
    weight: float
    objective: float
    aux_objective: float = 0.0


class ChainOutputs:
    """Computation of the objectives of all outputs of chain examples.

    Parameters
    ----------
    ops : the device's operations
    graphs : a function that returns the denominator graph of an output, given its name
    options : see :class:`ChainOptions`
    apply_deriv_weights : whether to multiply derivatives by the weights of the examples' frames
    seed : seed of random choices
    """

    def __init__(self, ops: Ops, graphs: Graphs, options: ChainOptions, apply_deriv_weights: bool = True,
                 seed: int = 0) -> None:
        options.check()
        self.options = options
        self._ops, self._graphs, self._seed = ops, graphs, seed
        self._apply_deriv_weights = apply_deriv_weights
        self._objectives: dict[int, ChainObjectiveComputation] = {}
        self._frame_step = 0

    def process(self, computer: Computer, eg: NnetChainExample, with_derivatives: bool) -> Iterator[OutputSums]:
        """Compute the objectives of an example's outputs, and set their derivatives if ``with_derivatives``.

        ``computer`` must have run the forward pass. Yields the sums of each output, NAME-xent before NAME.

        Raises Nnet3Error if a supervision does not fit its output, or is not normalized.
        """
        for supervised in eg.outputs:
            with within(f"output '{supervised.name}'"):
                self._check_times(supervised)
                yield from self._process_output(computer, eg, supervised, with_derivatives)

    def _process_output(self, computer: Computer, eg: NnetChainExample, supervised: NnetChainSupervision,
                        with_derivatives: bool) -> Iterator[OutputSums]:
        ops, options, xent_name = self._ops, self.options, supervised.name + XENT
        output = computer.output_view(supervised.name)
        check_supervision(supervised.supervision, tuple(output.shape))
        deriv = computer.input_view(supervised.name) if with_derivatives else None
        xent_deriv = None
        if options.xent_regularize:
            xent_deriv = computer.input_view(xent_name) if with_derivatives else ops.scratch(*output.shape)
        objective = self._objective(supervised.name).compute(supervised.supervision, output, deriv, xent_deriv)
        if xent_deriv is not None:
            yield OutputSums(xent_name, objective.weight, ops.sum_product(computer.output_view(xent_name), xent_deriv))
        if deriv is not None:
            self._add_lwf(deriv, eg, supervised)
            if self._apply_deriv_weights and len(supervised.deriv_weights):
                with ops.staged(np.asarray(supervised.deriv_weights, np.float32)) as (weights,):
                    for matrix in (deriv, xent_deriv):
                        if matrix is not None:
                            ops.mul_rows_vec(matrix, matrix, weights)
            if xent_deriv is not None:
                ops.copy_mat(xent_deriv, xent_deriv, options.xent_regularize)
        yield OutputSums(supervised.name, objective.weight, objective.value, objective.l2_term)

    def _objective(self, name: str) -> ChainObjectiveComputation:
        graph = self._graphs(name)
        if id(graph) not in self._objectives:
            self._objectives[id(graph)] = ChainObjectiveComputation(self._ops, graph, self.options, self._seed)
        return self._objectives[id(graph)]

    def _check_times(self, supervised: NnetChainSupervision) -> None:
        """Check that all examples have the same distance between output frames, the frame subsampling factor."""
        num_sequences = supervised.supervision.num_sequences
        if len(supervised.indexes) <= num_sequences:
            return
        step = int(supervised.indexes[num_sequences, 1]) - int(supervised.indexes[0, 1])
        self._frame_step = self._frame_step or step
        if step != self._frame_step:
            raise Nnet3Error(f"the times of its frames are {step} apart, those of earlier examples {self._frame_step}",
                             "the examples were made with different --frame-subsampling-factor")

    def _add_lwf(self, deriv: DeviceArray, eg: NnetChainExample, supervised: NnetChainSupervision) -> None:
        """Add to the derivative the posteriors in an example for learning without forgetting."""
        scale = self.options.lwf_scale + self.options.lwf_den_scale
        if not scale:
            return
        posteriors_of_lwf = [io for io in eg.inputs if io.name == LWF_POSTERIORS]
        if not posteriors_of_lwf:
            raise Nnet3Error(f"--lwf-scale and --lwf-den-scale need examples with an input {LWF_POSTERIORS}",
                             "nnet3-chain-add-post-to-egs adds it")
        posteriors = self._ops.scratch(*deriv.shape)
        self._ops.copy_in(posteriors, _by_frame(posteriors_of_lwf[0], deriv.shape))
        self._ops.add_mat(deriv, posteriors, scale)


def _by_frame(io: NnetIo, shape: tuple[int, ...]) -> np.ndarray:
    """Return posteriors, of ``shape``, sorted like the output's rows: by frame, then sequence."""
    matrix = to_dense(io.features)
    if matrix.shape != shape:
        raise ShapeError(f"the input {io.name} has {matrix.shape[0]} rows and {matrix.shape[1]} columns, the output "
                         f"{shape[0]} and {shape[1]}", "were the posteriors computed with another network?")
    check_finite(matrix, f"the input {io.name}")
    return matrix[np.lexsort((io.indexes[:, 0], io.indexes[:, 1]))]
