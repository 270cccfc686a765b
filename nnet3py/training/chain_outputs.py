"""The supervised outputs of chain examples: objectives and derivatives of each, and of its cross-entropy companion."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nnet3py.chain.den_graph import DenominatorGraph, read_den_graph
from nnet3py.chain.numerator import check_supervision
from nnet3py.egs.chain_example import NnetChainExample, NnetChainSupervision
from nnet3py.egs.example import NnetIo
from nnet3py.errors import Nnet3Error, ShapeError, within
from nnet3py.formats.general import check_finite, to_dense
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import Computer
from nnet3py.training.chain_objective import ChainObjectiveComputation
from nnet3py.training.example_request import HIDDEN, XENT
from nnet3py.training.options import ChainOptions

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Ops

LWF_POSTERIORS = HIDDEN + "LWF-posteriors"    # input with posteriors of another model, for learning without forgetting

Graphs = Callable[[str], DenominatorGraph]    # of an output's name


def one_graph(nnet: Nnet, den_fst: str) -> Graphs:
    """One denominator graph for all outputs, whose pdfs are those of the node ``output``.

    Raises
    ------
    Nnet3Error : the network has no such node, or the file holds no graph of its pdfs
    """
    num_pdfs = nnet.output_dim("output") if "output" in nnet.node_names else -1
    if num_pdfs < 0:
        raise Nnet3Error("the network has no output node named 'output', which chain training needs")
    graph = read_den_graph(den_fst, num_pdfs)
    return lambda name: graph


def graph_folder(nnet: Nnet, folder: str) -> Graphs:
    """A denominator graph for each language, ``FOLDER/LANGUAGE.den.fst`` for ``output-LANGUAGE``, read on first use."""
    graphs: dict[str, DenominatorGraph] = {}

    def find(name: str) -> DenominatorGraph:
        if name not in graphs:
            graphs[name] = read_den_graph(f"{folder}/{name.removeprefix('output-')}.den.fst", nnet.output_dim(name))
        return graphs[name]

    return find


class Counted(NamedTuple):
    """What is counted for an output: its name, the weight, the objective, and the auxiliary objective."""

    name: str
    weight: float
    objective: float
    aux_objective: float = 0.0


class ChainOutputs:
    """Objectives of all outputs of chain examples.

    Parameters
    ----------
    ops : the device's operations
    graphs : the denominator graph of each output
    options : see :class:`ChainOptions`
    apply_deriv_weights : multiply derivatives with the examples' weights
    seed : of random choices
    """

    def __init__(self, ops: Ops, graphs: Graphs, options: ChainOptions, apply_deriv_weights: bool = True,
                 seed: int = 0) -> None:
        options.check()
        self.options = options
        self._ops, self._graphs, self._seed = ops, graphs, seed
        self._apply_deriv_weights = apply_deriv_weights
        self._objectives: dict[int, ChainObjectiveComputation] = {}
        self._frame_step = 0

    def process(self, computer: Computer, eg: NnetChainExample, with_derivatives: bool) -> Iterator[Counted]:
        """Compute the objectives of an example's outputs; set their derivatives if asked to.

        ``computer`` has run forward. Yields what to count, of the companion (NAME-xent) before the output itself.

        Raises
        ------
        Nnet3Error : a supervision does not fit its output, or is not normalized
        """
        for supervised in eg.outputs:
            with within(f"output '{supervised.name}'"):
                self._check_times(supervised)
                yield from self._process_output(computer, eg, supervised, with_derivatives)

    def _process_output(self, computer: Computer, eg: NnetChainExample, supervised: NnetChainSupervision,
                        with_derivatives: bool) -> Iterator[Counted]:
        ops, options, xent_name = self._ops, self.options, supervised.name + XENT
        output = computer.output_view(supervised.name)
        check_supervision(supervised.supervision, tuple(output.shape))
        deriv = computer.input_view(supervised.name) if with_derivatives else None
        xent_deriv = None
        if options.xent_regularize:
            xent_deriv = computer.input_view(xent_name) if with_derivatives else ops.scratch(*output.shape)
        objective = self._objective(supervised.name).compute(supervised.supervision, output, deriv, xent_deriv)
        if xent_deriv is not None:
            yield Counted(xent_name, objective.weight, ops.sum_product(computer.output_view(xent_name), xent_deriv))
        if deriv is not None:
            self._add_lwf(deriv, eg, supervised)
            if self._apply_deriv_weights and len(supervised.deriv_weights):
                with ops.staged(np.asarray(supervised.deriv_weights, np.float32)) as (weights,):
                    for matrix in (deriv, xent_deriv):
                        if matrix is not None:
                            ops.mul_rows_vec(matrix, matrix, weights)
            if xent_deriv is not None:
                ops.copy_mat(xent_deriv, xent_deriv, options.xent_regularize)
        yield Counted(supervised.name, objective.weight, objective.value, objective.l2_term)

    def _objective(self, name: str) -> ChainObjectiveComputation:
        graph = self._graphs(name)
        if id(graph) not in self._objectives:
            self._objectives[id(graph)] = ChainObjectiveComputation(self._ops, graph, self.options, self._seed)
        return self._objectives[id(graph)]

    def _check_times(self, supervised: NnetChainSupervision) -> None:
        """Check that all examples have the same time between output frames: the frame subsampling factor."""
        num_sequences = supervised.supervision.num_sequences
        if len(supervised.indexes) <= num_sequences:
            return
        step = int(supervised.indexes[num_sequences, 1]) - int(supervised.indexes[0, 1])
        self._frame_step = self._frame_step or step
        if step != self._frame_step:
            raise Nnet3Error(f"its frames are {step} apart (t), those of the examples before {self._frame_step}",
                             "the examples were made with different --frame-subsampling-factor")

    def _add_lwf(self, deriv: DeviceArray, eg: NnetChainExample, supervised: NnetChainSupervision) -> None:
        """Add the posteriors that come with an example for learning without forgetting."""
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
    """Posteriors in the order of an output's rows: frame after frame, and within a frame all sequences."""
    matrix = to_dense(io.features)
    if matrix.shape != shape:
        raise ShapeError(f"the input {io.name} has {matrix.shape[0]} rows and {matrix.shape[1]} columns, the output "
                         f"{shape[0]} and {shape[1]}", "were the posteriors computed with another network?")
    check_finite(matrix, f"the input {io.name}")
    return matrix[np.lexsort((io.indexes[:, 0], io.indexes[:, 1]))]
