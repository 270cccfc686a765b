"""The LF-MMI objective as a loss of PyTorch, and its supervision from alignments, lattices, or phones without times.

Sequences of a padded minibatch whose supervisions can be merged are computed together, as a group.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from nnet3py import extras
from nnet3py.cached_property import cached_property
from nnet3py.chain.acceptor import SupervisionError
from nnet3py.chain.den_fst import check_system
from nnet3py.chain.den_graph import DenominatorGraph, read_den_graph
from nnet3py.chain.normalization import Normalizer, normalization_fst
from nnet3py.chain.options import SupervisionOptions
from nnet3py.chain.supervision import SupervisionMaker, end_to_end_supervision, proto_from_lattice, proto_from_phones
from nnet3py.egs.chain_example import NnetChainSupervision, Supervision, merge_supervisions
from nnet3py.errors import ShapeError, UsageError, within
from nnet3py.hmm.alignment import phone_starts
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object
from nnet3py.torch.memory import ReusedMemory, matrix_of, operations_for, wait
from nnet3py.training.chain_objective import ChainObjectiveComputation
from nnet3py.training.options import ChainOptions
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_text import read_fst_file

if TYPE_CHECKING:
    import torch as _torch
    from torch.autograd import function as _function
else:
    _torch = extras.load("torch", "nnet3py.torch needs", "torch")
    _function = extras.load("torch.autograd.function", "nnet3py.torch needs", "torch", "torch")


Supervised: TypeAlias = Supervision | NnetChainSupervision


@dataclass(frozen=True)
class Group:
    """Sequences of a minibatch that are computed together: their supervisions can be merged.

    Attributes
    ----------
    places : int64 (sequences,), their indexes in the minibatch
    supervision : their merged supervision
    deriv_weights : float32 (frames, sequences), factors of derivatives, or None
    """

    places: np.ndarray
    supervision: Supervision
    deriv_weights: np.ndarray | None

    @property
    def num_frames(self) -> int:
        """Number of frames of each sequence."""
        return self.supervision.frames_per_sequence


def grouped(supervised: Supervised | Sequence[Supervised], shape: tuple[int, int],
            lengths: Sequence[int] | None) -> list[Group]:
    """Divide the sequences of a minibatch into groups whose supervisions can be merged.

    Parameters
    ----------
    supervised : the supervision of all sequences, or several, whose sequences follow each other
    shape : numbers of sequences and of frames of the output
    lengths : the number of valid frames of each sequence; None for all frames

    Raises
    ------
    UsageError : ``supervised`` is not a supervision
    ShapeError : supervisions, lengths and output that do not fit each other, or that cannot be merged
    """
    parts = [supervised] if isinstance(supervised, Supervised) else list(supervised)
    for part in parts:
        if not isinstance(part, Supervised):
            raise UsageError(f"found a {type(part).__name__} as supervision, expected a Supervision, the output of a "
                             "chain example, or a list of these", "supervision_from_alignments makes a list")
    counts = [_plain(part).num_sequences for part in parts]
    if sum(counts) != shape[0]:
        raise ShapeError(f"the supervision is of {sum(counts)} sequences, but the network's output has {shape[0]}",
                         "the output is expected as (sequences, frames, pdfs)")
    frames = np.repeat([_plain(part).frames_per_sequence for part in parts], counts)
    _check_lengths(frames, shape[1], lengths)
    firsts = np.cumsum([0, *counts])
    by_kind: dict[tuple[int, float, bool], list[int]] = {}
    for number, part in enumerate(parts):
        plain = _plain(part)
        by_kind.setdefault((plain.frames_per_sequence, plain.weight, plain.is_end_to_end), []).append(number)
    return [Group(np.concatenate([np.arange(firsts[number], firsts[number + 1]) for number in numbers]),
                  merge_supervisions([_plain(parts[number]) for number in numbers]),
                  _deriv_weights([parts[number] for number in numbers]))
            for numbers in by_kind.values()]


def _plain(part: Supervised) -> Supervision:
    return part.supervision if isinstance(part, NnetChainSupervision) else part


def _check_lengths(frames: np.ndarray, num_frames: int, lengths: Sequence[int] | None) -> None:
    wanted = np.full(len(frames), num_frames) if lengths is None else np.asarray(lengths)
    if wanted.shape != frames.shape:
        raise ShapeError(f"lengths have the shape {wanted.shape}, expected a number for each of {len(frames)} "
                         "sequences")
    wrong = np.flatnonzero(wanted != frames)
    if len(wrong):
        first = int(wrong[0])
        advice = ("give lengths, if the output is padded" if lengths is None else
                  "lengths count frames of the output, not of the features")
        with within(f"sequence {first}"):
            raise ShapeError(f"its supervision is of {frames[first]} frames, but its output has {wanted[first]}",
                             advice)
    if frames.max(initial=0) > num_frames:
        raise ShapeError(f"a sequence has {frames.max()} frames, but the network's output has {num_frames}")


def _deriv_weights(parts: Sequence[Supervised]) -> np.ndarray | None:
    """Concatenate the derivative weights of several supervisions; 1 where missing. Return None if all are missing."""
    weights = [part.deriv_weights if isinstance(part, NnetChainSupervision) else np.zeros(0) for part in parts]
    if not any(len(each) for each in weights):
        return None
    shapes = [(_plain(part).frames_per_sequence, _plain(part).num_sequences) for part in parts]
    for each, shape in zip(weights, shapes, strict=True):
        if len(each) not in (0, shape[0] * shape[1]):
            raise ShapeError(f"a chain example has {len(each)} weights, expected {shape[0] * shape[1]} or none")
    return np.concatenate([np.asarray(each, dtype=np.float32).reshape(shape) if len(each)
                           else np.ones(shape, dtype=np.float32)
                           for each, shape in zip(weights, shapes, strict=True)], axis=1)


Lengths: TypeAlias = "Sequence[int] | np.ndarray | _torch.Tensor"


class ChainSums(NamedTuple):
    """Sums over a minibatch, which Kaldi's log lines divide by the weight.

    Attributes
    ----------
    objective : numerator minus denominator, times the weights of supervisions
    l2_term : l2 regularization of the output, 0 or less
    xent_objective : objective of the cross-entropy output, before ``xent_regularize``
    weight : number of frames if supervisions have the weight 1
    """

    objective: float
    l2_term: float
    xent_objective: float
    weight: float


class ChainLoss(_torch.nn.Module):        # type: ignore[misc, name-defined]
    """Lattice-free MMI: a loss to minimize, minus Kaldi's chain objective per frame.

    Values and derivatives equal those of ``nnet3-chain-train``, divided by the number of frames.

    Parameters
    ----------
    den_fst : denominator graph from ``chain-make-den-fst``: an Fst, a file, or a DenominatorGraph
    num_pdfs : dimension of the output
    leaky_hmm_coefficient : above 0 and below 1; the default is Kaldi's, most recipes use 0.1
    xent_regularize : factor of the objective of the cross-entropy output; 0 without such an output
    l2_regularize : factor of half the sum of squares of the output
    out_of_range_regularize : factor of the derivative that pulls the output back to -30 to 30, in half of the calls, as
        in Kaldi
    seed : seed of the choice of these calls

    ``sums`` are the :class:`ChainSums` of the last call, or None.

    Raises
    ------
    UsageError : invalid options
    ShapeError : a graph with more pdfs than the output
    Nnet3Error : a graph that cannot be a denominator graph
    """

    def __init__(self, den_fst: Fst | str | PathLike[str] | DenominatorGraph, num_pdfs: int,
                 leaky_hmm_coefficient: float = 1.0e-05, xent_regularize: float = 0.0, l2_regularize: float = 0.0,
                 out_of_range_regularize: float = 0.01, seed: int = 0) -> None:
        super().__init__()
        self.options = ChainOptions(l2_regularize, out_of_range_regularize, leaky_hmm_coefficient, xent_regularize)
        self.options.check()
        self.graph, self.seed = _graph(den_fst, num_pdfs), seed
        self.sums: ChainSums | None = None
        self._of_thread = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_of_thread"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._of_thread = threading.local()

    def extra_repr(self) -> str:
        """Return the settings for ``repr``."""
        options = self.options
        return (f"{self.graph.num_states} states, {self.graph.num_pdfs} pdfs, leaky_hmm_coefficient="
                f"{options.leaky_hmm_coefficient:g}, xent_regularize={options.xent_regularize:g}, "
                f"l2_regularize={options.l2_regularize:g}")

    if TYPE_CHECKING:        # torch's own says nothing of what goes in and comes out
        def __call__(self, output: _torch.Tensor, supervision: Supervised | Sequence[Supervised],
                     xent_output: _torch.Tensor | None = None, lengths: Lengths | None = None) -> _torch.Tensor: ...

    def forward(self, output: _torch.Tensor, supervision: Supervised | Sequence[Supervised],
                xent_output: _torch.Tensor | None = None, lengths: Lengths | None = None) -> _torch.Tensor:
        """Compute the loss of a minibatch.

        Parameters
        ----------
        output : (sequences, frames, pdfs) of any float dtype, on the CPU or a GPU; without a softmax
        supervision : merged supervision of all sequences; or a list, sequence by sequence; or outputs of chain
            examples, whose weights multiply the derivatives, not the value, as in Kaldi
        xent_output : (sequences, frames, pdfs), with a log-softmax; ignored if ``xent_regularize`` is 0
        lengths : integers (sequences,), the number of valid frames of each sequence, at the output; None for all frames

        Returns
        -------
        A tensor of one number, of the output's dtype or float32, whichever is wider. The numerator's posteriors, which
        are the targets of ``xent_output``, count as constants. If the computation fails, the loss is 10, with
        derivatives of 0 and a warning, as in Kaldi.

        Raises
        ------
        ShapeError : output, supervision and lengths that do not fit each other
        UsageError : tensors that are not floats, or on two devices; a missing ``xent_output``
        DeviceError : a device that nnet3py does not compute on
        """
        _check_output("output", output, self.graph.num_pdfs)
        if not self.options.xent_regularize:
            xent_output = None
        elif xent_output is None:
            raise UsageError(f"xent_regularize={self.options.xent_regularize:g} needs an xent_output",
                             "give the module's second output, or leave out xent_regularize")
        else:
            _check_output("xent_output", xent_output, self.graph.num_pdfs)
            if xent_output.shape != output.shape or xent_output.device != output.device:
                raise ShapeError(f"output is {tuple(output.shape)} on {output.device}, but xent_output "
                                 f"{tuple(xent_output.shape)} on {xent_output.device}", "they should be alike")
        if lengths is not None:
            lengths = lengths.tolist() if isinstance(lengths, _torch.Tensor | np.ndarray) else list(lengths)
        groups = grouped(supervision, (output.shape[0], output.shape[1]), lengths)
        value: _torch.Tensor = _ChainFunction.apply(output, xent_output, self, groups)
        return value

    def _computation(self, output: Any) -> ChainObjectiveComputation:
        """Return this thread's computation on the output's device, since scratch memory belongs to a thread."""
        ops, by_device = operations_for(output), self._of_thread.__dict__
        if ops.device not in by_device:
            by_device[ops.device] = ChainObjectiveComputation(ops, self.graph, self.options, self.seed)
        computation: ChainObjectiveComputation = by_device[ops.device]
        return computation

    def _memory(self) -> ReusedMemory:
        """Return this thread's memory for matrices of the size of an output."""
        memory: ReusedMemory = self._of_thread.__dict__.setdefault("memory", ReusedMemory())
        return memory


class _ChainFunction(_function.Function):        # type: ignore[misc, name-defined]
    """Function of autograd that computes the derivatives together with the value, and keeps them for ``backward``."""

    @staticmethod
    def forward(ctx: Any, output: Any, xent_output: Any, loss: ChainLoss, groups: list[Group]) -> Any:
        """Return the value; raises as :meth:`ChainLoss.forward`."""
        wanted = output if ctx.needs_input_grad[0] else None, xent_output if ctx.needs_input_grad[1] else None
        computation, memory = loss._computation(output), loss._memory()
        sums, parts = np.zeros(len(ChainSums._fields)), []
        for group in groups:
            group_sums, derivs = _compute(computation, memory, group, output, xent_output, wanted[0] is not None)
            sums += group_sums
            parts.append(derivs)
        loss.sums = ChainSums(*sums.tolist())
        scale = -1.0 / (loss.sums.weight or 1.0)
        ctx.factors = scale, scale * loss.options.xent_regularize
        ctx.derivs = [None if tensor is None else _together(tensor, groups, [derivs[place] for derivs in parts])
                      for place, tensor in enumerate(wanted)]
        ctx.memory = memory
        ctx.save_for_backward(*wanted)
        value = ((loss.sums.objective + loss.sums.l2_term) * ctx.factors[0] + loss.sums.xent_objective * ctx.factors[1])
        wide = _torch.promote_types(output.dtype, _torch.float32)
        return _torch.tensor(value, dtype=wide, device=output.device)

    @staticmethod
    def backward(ctx: Any, deriv_of_value: Any) -> Any:
        """Return the derivatives, each in its tensor's dtype."""
        return *(None if deriv is None else _Derivative.apply(deriv_of_value * factor, tensor, deriv, ctx.memory)
                 for deriv, tensor, factor in zip(ctx.derivs, ctx.saved_tensors, ctx.factors, strict=True)), None, None


class _Derivative(_function.Function):        # type: ignore[misc, name-defined]
    """Function of autograd for the derivative of the loss, which raises UsageError if a second derivative is requested.
    """

    @staticmethod
    def forward(ctx: Any, deriv_of_value: Any, tensor: Any, deriv: Any, memory: ReusedMemory) -> Any:
        """Return ``deriv`` times the derivative of the value, in the dtype of ``tensor``."""
        # Contiguous, as the layers before the loss want it: ``deriv`` goes frame by frame.
        product = memory.empty(tensor.shape, tensor.device)
        return _torch.mul(deriv, deriv_of_value.float(), out=product).to(tensor.dtype)

    @staticmethod
    def backward(ctx: Any, _: Any) -> Any:
        """Raise UsageError: there is no second derivative."""
        raise UsageError("ChainLoss has no second derivative", "leave out create_graph=True, or take the derivative "
                                                               "of the output as a constant, by detach()")


def _compute(computation: ChainObjectiveComputation, memory: ReusedMemory, group: Group, output: Any,
             xent_output: Any, with_derivative: bool) -> tuple[list[float], tuple[Any, Any]]:
    """Compute the objective of a group.

    Returns
    -------
    The fields of :class:`ChainSums`; and the derivatives with respect to ``output`` and ``xent_output``, float32
    (frames, sequences, pdfs), None for those that are not needed.
    """
    ops = computation.ops
    rows = _by_frame(output, group, memory)
    deriv = memory.empty(rows.shape, rows.device) if with_derivative else None
    numerator = None if xent_output is None else memory.empty(rows.shape, rows.device)
    wait(output)
    mark = ops.mark_scratch()
    try:
        result = computation.compute(group.supervision, *map(matrix_of, (rows, deriv, numerator)))
    finally:
        ops.release_scratch(mark)
    wait(output)
    xent_objective = 0.0
    if numerator is not None:
        xent_objective = float((_by_frame(xent_output, group, memory).double() * numerator).sum())
    if group.deriv_weights is not None:
        weights = _torch.from_numpy(group.deriv_weights).to(output.device)[:, :, None]
        for part in (deriv, numerator):
            if part is not None:
                part *= weights
    return [result.value, result.l2_term, xent_objective, result.weight], (deriv, numerator)


def _by_frame(tensor: Any, group: Group, memory: ReusedMemory) -> Any:
    """Return a group's part of (sequences, frames, pdfs) as float32 (frames, sequences, pdfs), a view if possible."""
    chosen = tensor.detach()[:, :group.num_frames]
    if len(group.places) < len(tensor):
        chosen = chosen.index_select(0, _torch.from_numpy(group.places).to(tensor.device))
    frames = chosen.transpose(0, 1)
    if frames.dtype == _torch.float32 and frames.is_contiguous():
        return frames
    return memory.empty(frames.shape, frames.device).copy_(frames)


def _together(tensor: Any, groups: list[Group], parts: list[Any]) -> Any:
    """Return the parts of all groups as one float32 tensor of the shape of ``tensor``, with 0 for padding."""
    if len(parts) == 1 and tuple(parts[0].shape[:2]) == (tensor.shape[1], tensor.shape[0]):
        return parts[0].transpose(0, 1)
    whole = _torch.zeros(tensor.shape, dtype=_torch.float32, device=tensor.device)
    for group, part in zip(groups, parts, strict=True):
        whole[_torch.from_numpy(group.places).to(tensor.device), :group.num_frames] = part.transpose(0, 1)
    return whole


def _check_output(name: str, tensor: Any, num_pdfs: int) -> None:
    if not isinstance(tensor, _torch.Tensor) or not tensor.is_floating_point():
        kind = tensor.dtype if isinstance(tensor, _torch.Tensor) else type(tensor).__name__
        raise UsageError(f"{name} is a {kind}, expected a tensor of floats")
    if tensor.ndim != 3 or tensor.shape[2] != num_pdfs:
        raise ShapeError(f"{name} has the shape {tuple(tensor.shape)}, expected (sequences, frames, {num_pdfs})",
                         "Conv1d has frames last: output.transpose(1, 2)")


def _graph(den_fst: Fst | str | PathLike[str] | DenominatorGraph, num_pdfs: int) -> DenominatorGraph:
    if isinstance(den_fst, DenominatorGraph):
        if den_fst.num_pdfs != num_pdfs:
            raise ShapeError(f"the denominator graph was made for {den_fst.num_pdfs} pdfs, but num_pdfs={num_pdfs}")
        return den_fst
    if isinstance(den_fst, Fst):
        return DenominatorGraph(den_fst, num_pdfs)
    return read_den_graph(fspath(den_fst), num_pdfs)


Path = str | PathLike[str]


class ChainSystem:
    """Chain system: tree, transition model and denominator graph, from which supervision is made.

    Parameters
    ----------
    tree, model, den_fst : files, or objects; ``model`` may be any file that begins with a transition model, such as
        0.trans_mdl
    frame_subsampling_factor : frames of alignments and lattices per frame of the network's output
    left_tolerance, right_tolerance : frames of the alignment by which a phone may begin earlier and end later

    Raises
    ------
    FormatError : files of another kind, or a tree and a model of different systems
    Nnet3Error : invalid options
    """

    def __init__(self, tree: ContextDependency | Path, model: TransitionModel | Path, den_fst: Fst | Path, *,
                 frame_subsampling_factor: int = 3, left_tolerance: int = 5, right_tolerance: int = 5) -> None:
        self.tree = tree if isinstance(tree, ContextDependency) else read_object(tree, ContextDependency.read)
        self.model = model if isinstance(model, TransitionModel) else read_object(model, TransitionModel.read)
        self.den_fst = den_fst if isinstance(den_fst, Fst) else read_fst_file(den_fst)
        self.options = SupervisionOptions(left_tolerance, right_tolerance, frame_subsampling_factor)
        check_system(self.tree, self.model)

    @property
    def num_pdfs(self) -> int:
        """Dimension of the network's output."""
        return self.model.num_pdfs

    @cached_property
    def maker(self) -> SupervisionMaker:
        """Maker of supervision without the costs of the denominator graph."""
        return SupervisionMaker(self.tree, self.model)

    @cached_property
    def normalizer(self) -> Normalizer:
        """Normalizer, which adds the costs of the denominator graph."""
        return Normalizer(normalization_fst(self.den_fst))


def supervision_from_alignments(alignments: Iterable[np.ndarray], system: ChainSystem,
                                alignment_model: TransitionModel | None = None) -> list[Supervision]:
    """Make the supervision of each alignment.

    Parameters
    ----------
    alignments : int (frames,), transition-ids of ``alignment_model``; or int (phones, 2), phones with their numbers of
        frames, as ``ali-to-phones --write-lengths`` writes them
    system : tree, transition model and denominator graph
    alignment_model : transition model of the alignments; None for that of the chain system

    Returns
    -------
    A list with one supervision for each alignment, for :class:`ChainLoss`.

    Raises
    ------
    SupervisionError : an alignment without possible supervision, with its number
    ShapeError : arrays of another shape, or numbers that are not transition-ids
    """
    model = alignment_model or system.model

    def make(alignment: Any) -> Supervision:
        phones, durations = _phones(np.asarray(alignment), model)
        return system.maker.make(proto_from_phones(phones, durations, system.options))

    return _each(make, "alignment", alignments, system)


def supervision_from_lattices(lattices: Iterable[CompactLattice], system: ChainSystem) -> list[Supervision]:
    """Make the supervision of each phone-aligned lattice.

    Parameters
    ----------
    lattices : lattices from ``lattice-align-phones --replace-output-symbols``
    system : tree, transition model and denominator graph

    Returns
    -------
    A list with one supervision for each lattice, for :class:`ChainLoss`.

    Raises
    ------
    SupervisionError : a lattice that is not phone-aligned, or has too few frames, with its number
    """
    return _each(lambda lattice: system.maker.make(proto_from_lattice(lattice, system.options)), "lattice", lattices,
                 system)


def supervision_from_phones(sequences: Iterable[np.ndarray | Fst], num_frames: Sequence[int],
                            system: ChainSystem) -> list[Supervision]:
    """Make supervision without times, as in end-to-end training, of each sequence of phones.

    Parameters
    ----------
    sequences : int (phones,); or training graphs whose labels are transition-ids, from ``compile-train-graphs
        --transition-scale=0 --self-loop-scale=0``, for optional silences and alternative pronunciations
    num_frames : number of frames of each sequence at the network's output
    system : tree, transition model and denominator graph

    Returns
    -------
    A list with one supervision for each sequence, for :class:`ChainLoss`.

    Raises
    ------
    SupervisionError : a sequence without phones, or with too many for its frames, with its number
    ShapeError : ``num_frames`` of another length than ``sequences``
    """
    sequences, lengths = list(sequences), [int(number) for number in num_frames]
    if len(lengths) != len(sequences):
        raise ShapeError(f"found {len(lengths)} numbers of frames for {len(sequences)} sequences of phones")

    def make(pair: tuple[Any, int]) -> Supervision:
        phones, frames = pair
        graph = phones if isinstance(phones, Fst) else system.maker.transition_ids(_in_order(np.asarray(phones)))
        return end_to_end_supervision(graph, system.model, frames)

    return _each(make, "sequence", zip(sequences, lengths, strict=True), system)


def _each(make: Callable[[Any], Supervision], what: str, values: Iterable[Any],
          system: ChainSystem) -> list[Supervision]:
    result = []
    for number, value in enumerate(values):
        with within(f"{what} {number}"):
            result.append(system.normalizer(make(value)))
    return result


def _phones(alignment: np.ndarray, model: TransitionModel) -> tuple[np.ndarray, np.ndarray]:
    """Return phones and their numbers of frames."""
    if alignment.dtype.kind not in "iu" or alignment.ndim not in (1, 2) or alignment.shape[1:] not in ((), (2,)):
        raise ShapeError(f"found {alignment.dtype} {alignment.shape}, expected integers: transition-ids (frames,), or "
                         "phones and their frames (phones, 2)")
    if alignment.ndim == 2:
        return alignment[:, 0], alignment[:, 1]
    starts, complete = phone_starts(model, alignment)
    if not complete:
        raise SupervisionError("its phones are not complete", "was it made with another transition model?")
    return model.transition_id_to_phone[alignment[starts]], np.diff(starts, append=len(alignment))


def _in_order(phones: np.ndarray) -> Fst:
    """Return an acceptor of one sequence of phones."""
    if phones.ndim != 1 or phones.dtype.kind not in "iu":
        raise ShapeError(f"found {phones.dtype} {phones.shape}, expected phones, integers (phones,)")
    if not len(phones) or int(phones.min()) < 1:
        raise SupervisionError(f"its phones are {phones.tolist()}, expected numbers from 1 on")
    places = np.arange(len(phones) + 1)
    finals = np.where(places == len(phones), np.float32(0.0), NO_WEIGHT)
    return Fst.from_arcs(0, finals, places[:-1], phones, phones, np.zeros(len(phones)), places[1:])
