"""Supervision of whole utterances for ChainLoss: from alignments, lattices, or phones without times."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.chain.acceptor import SupervisionError
from nnet3py.chain.den_fst import check_system
from nnet3py.chain.normalization import Normalizer, normalization_fst
from nnet3py.chain.options import SupervisionOptions
from nnet3py.chain.supervision import (
    SupervisionMaker,
    end_to_end_supervision,
    proto_from_lattice,
    proto_from_phones,
)
from nnet3py.egs.chain_example import Supervision
from nnet3py.errors import ShapeError, within
from nnet3py.hmm.alignment import phone_starts
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_text import read_fst_file

Path = str | PathLike[str]


class ChainSystem:
    """What supervisions are made with: tree, transition model and denominator graph of a chain system.

    Parameters
    ----------
    tree, model, den_fst : files, or what is read from them; ``model`` may be any file that begins with a transition
        model, such as 0.trans_mdl
    frame_subsampling_factor : frames of alignments and lattices per frame of the network's output
    left_tolerance, right_tolerance : frames of the alignment by which a phone may begin earlier and end later

    Raises
    ------
    FormatError : files that hold something else, a tree and a model of different systems
    Nnet3Error : numbers that do not go together
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
        """The dimension of the network's output."""
        return self.model.num_pdfs

    @cached_property
    def maker(self) -> SupervisionMaker:
        """Makes supervisions without the costs of the denominator graph."""
        return SupervisionMaker(self.tree, self.model)

    @cached_property
    def normalizer(self) -> Normalizer:
        """Adds these costs."""
        return Normalizer(normalization_fst(self.den_fst))


def supervision_from_alignments(alignments: Iterable[np.ndarray], system: ChainSystem,
                                alignment_model: TransitionModel | None = None) -> list[Supervision]:
    """The supervision of each alignment, for a list of sequences.

    Parameters
    ----------
    alignments : int (frames,) transition-ids of ``alignment_model``; or int (phones, 2), phones with their numbers of
        frames, as ``ali-to-phones --write-lengths`` writes them
    system : tree, transition model and denominator graph
    alignment_model : of the system that aligned; None: that of the chain system

    Returns
    -------
    One for each, for :class:`ChainLoss`.

    Raises
    ------
    SupervisionError : an alignment from which no supervision can be made; it says which
    ShapeError : arrays of other shapes, or numbers that are not transition-ids
    """
    model = alignment_model or system.model

    def make(alignment: Any) -> Supervision:
        phones, durations = _phones(np.asarray(alignment), model)
        return system.maker.make(proto_from_phones(phones, durations, system.options))

    return _each(make, "alignment", alignments, system)


def supervision_from_lattices(lattices: Iterable[CompactLattice], system: ChainSystem) -> list[Supervision]:
    """The supervision of each phone-aligned lattice, as ``lattice-align-phones --replace-output-symbols`` makes them.

    Parameters
    ----------
    lattices : phone-aligned
    system : tree, transition model and denominator graph

    Returns
    -------
    One for each, for :class:`ChainLoss`.

    Raises
    ------
    SupervisionError : a lattice that is not phone-aligned, or has too few frames; it says which
    """
    return _each(lambda lattice: system.maker.make(proto_from_lattice(lattice, system.options)), "lattice", lattices,
                 system)


def supervision_from_phones(sequences: Iterable[np.ndarray | Fst], num_frames: Sequence[int],
                            system: ChainSystem) -> list[Supervision]:
    """Supervision without times, as in end-to-end training, of each sequence of phones.

    Parameters
    ----------
    sequences : int (phones,); or training graphs whose labels are transition-ids, as ``compile-train-graphs`` makes
        them with ``--transition-scale=0 --self-loop-scale=0``, for silences and pronunciations that are optional
    num_frames : of each at the network's output
    system : tree, transition model and denominator graph

    Returns
    -------
    One for each, for :class:`ChainLoss`.

    Raises
    ------
    SupervisionError : a sequence without phones, or with too many for its frames; it says which
    ShapeError : other than one number of frames for each sequence
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
    """Phones and their numbers of frames."""
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
    """An acceptor of one sequence."""
    if phones.ndim != 1 or phones.dtype.kind not in "iu":
        raise ShapeError(f"found {phones.dtype} {phones.shape}, expected phones, integers (phones,)")
    if not len(phones) or int(phones.min()) < 1:
        raise SupervisionError(f"its phones are {phones.tolist()}, expected numbers from 1 on")
    places = np.arange(len(phones) + 1)
    finals = np.where(places == len(phones), np.float32(0.0), NO_WEIGHT)
    return Fst.from_arcs(0, finals, places[:-1], phones, phones, np.zeros(len(phones)), places[1:])
