"""From sound, features or log-likelihoods to phones with times, without a graph of words."""
from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nnet3py.decoding.graph import PhoneLoop, phone_loop
from nnet3py.decoding.lattice_decoder import Decoded, Decoder
from nnet3py.decoding.options import DecoderOptions
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.hmm.alignment import phone_starts
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object
from nnet3py.option_fields import OptionValue
from nnet3py.recognition.aligning import AlignedPhone, phone_names
from nnet3py.recognition.front_end import FrontEnd, FrontEndOutput, Sounds
from nnet3py.recognition.scorer import Model, Scorer
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import read_fst_file

_FRAME_SHIFT = 0.01            # seconds, Kaldi's default
_CHAIN_LOOPS, _OTHER_LOOPS = 1.0, 0.1            # scales of self-loops, as for graphs of words


@dataclass(frozen=True, eq=False)
class DecodedPhones:
    """The phones that were recognized in an utterance.

    Attributes
    ----------
    phones : of the whole utterance, silence among them, with times in seconds and in frames of the network's output
    transition_ids : int32 (frames,), of the best path
    log_likelihood : of a frame on average, scaled, with the costs of the loop of phones
    seconds_per_frame : of the network's output
    """

    phones: tuple[AlignedPhone, ...]
    transition_ids: NDArray[np.int32] = field(repr=False)
    log_likelihood: float
    seconds_per_frame: float

    @property
    def names(self) -> list[str]:
        """The names of the phones, for :func:`nnet3py.wer`."""
        return [phone.phone for phone in self.phones]

    @property
    def text(self) -> str:
        """The names, with blanks between them."""
        return " ".join(self.names)


def decode_phones(model: Model, sound: Sounds | FrontEndOutput, rate: float | None = None, *,
                  ivector: np.ndarray | None = None, channel: int | None = None, insertion_penalty: float = 0.0,
                  tree: str | os.PathLike[str] | ContextDependency | None = None,
                  phone_lm: str | os.PathLike[str] | Fst | None = None,
                  phones: str | os.PathLike[str] | Mapping[int, str] | None = None,
                  acoustic_scale: float | None = None,
                  options: DecoderOptions | Mapping[str, OptionValue] | None = None,
                  device: str = "cpu") -> DecodedPhones:
    """Find the phones of an utterance by the acoustic model alone: no words, no lexicon.

    They are the best path through a loop of all phones, which are equally probable and may follow each other in any
    order. A phone passes through its HMM, with the transition probabilities of the model; its pdfs may be those of any
    context, the same for as long as a state of the HMM lasts. Phones whose HMMs have the same pdfs cannot be told apart
    and count as the first of them; the marks of places in words (``_B``, ``_I``, ``_E``, ``_S``) are left out of the
    names. Silence is a phone like others. A phone may follow itself: then the best path enters its HMM twice.

    With the tree, pdfs are those of the phones that stand beside each other; with a phone language model, phones follow
    each other as in training. An experiment of Kaldi's chain training has both: tree and phone_lm.fst.

    Parameters
    ----------
    model : a model folder, a recognizer, an acoustic model or its file; or, for log-likelihoods, only its transition
        model
    sound : log-likelihoods or features of an utterance, or what :func:`front_end` made of it, as :func:`decode` takes
        them; for a model folder also a file of sound, or samples as :func:`features` takes them
    rate : samples a second, of samples
    ivector : float (ivector dim,), for features alone
    channel : which one of several of a sound, from 0; None: the only one, or of a file their mean
    insertion_penalty : a cost added for each phone; negative: more phones, shorter ones
    tree : of the model, or its file
    phone_lm : an acceptor of phones, by the model's numbers, or its file; needs ``tree``
    phones : the names of phones, by number or in a file like phones.txt; None: the folder's phones.txt, else numbers
    acoustic_scale : of the log-likelihoods; None: as the folder says, else 1 for a model without priors, 0.1 with
    options : of the search, as for :func:`decode`
    device : ``cpu`` or ``cuda``, for the network

    Returns
    -------
    DecodedPhones : the phones with their times, in seconds (frames are 0.01 s apart where no folder says another
    number) and in frames

    Raises
    ------
    ShapeError : arrays of another number of columns than the model has
    Nnet3Error : files that are missing or do not fit each other; no sound, or no path is left
    """
    scorer = Scorer(model)
    given, seconds = _features(scorer, sound, rate, channel)
    matrix = scorer.log_likes(given, ivector, device)
    if not len(matrix):
        raise Nnet3Error("there are no frames", "is the sound shorter than a window, or the rate wrong?")
    loop = phone_loop(scorer.transitions, _names(scorer, phones), insertion_penalty=insertion_penalty,
                      self_loop_scale=_OTHER_LOOPS if scorer.has_priors else _CHAIN_LOOPS,
                      tree=read_object(tree, ContextDependency.read) if isinstance(tree, str | os.PathLike) else tree,
                      phone_lm=read_fst_file(os.fspath(phone_lm)) if isinstance(phone_lm, str | os.PathLike)
                      else phone_lm)
    scale = scorer.acoustic_scale(acoustic_scale)
    decoded = Decoder(loop.graph, scorer.transitions, scorer.options(options)).decode(
        (matrix * np.float32(scale)).astype(np.float32))
    if decoded is None:
        raise Nnet3Error("no path through the loop of phones is left", "a wider beam may keep one")
    return _result(scorer, loop, decoded, seconds * scorer.frame_subsampling_factor)


def _features(scorer: Scorer, sound: Sounds | FrontEndOutput, rate: float | None,
              channel: int | None) -> tuple[np.ndarray | FrontEndOutput, float]:
    """What the model takes, or log-likelihoods as they are; and seconds from a frame to the next."""
    folder = scorer.folder
    shift = float(folder.features.get("frame-shift", 1000.0 * _FRAME_SHIFT)) / 1000.0 if folder else _FRAME_SHIFT
    if isinstance(sound, FrontEndOutput) or (isinstance(sound, np.ndarray) and sound.ndim == 2 and rate is None):
        return sound, shift
    if folder is None:
        raise UsageError("features of a sound are made as the model's folder says, and it was not given",
                         "give the folder of the model, or features")
    lacks = [what for what in folder.missing if what not in folder.missing_graph]
    if lacks:
        raise Nnet3Error(f"{folder.path} cannot be used for recognition: {'; '.join(lacks)}",
                         "'nnet3py inspect' says what is in it")
    front_end = FrontEnd(folder)
    return front_end(sound, rate, channel=channel), front_end.frame_shift


def _names(scorer: Scorer, given: str | os.PathLike[str] | Mapping[int, str] | None) -> Mapping[int, str]:
    if isinstance(given, str | os.PathLike):
        return SymbolTable.read(os.fspath(given), "phone").names
    return given or (phone_names(scorer.folder) if scorer.folder is not None else {})


def _result(scorer: Scorer, loop: PhoneLoop, decoded: Decoded, seconds: float) -> DecodedPhones:
    ids = decoded.alignment
    borders = [*phone_starts(scorer.transitions, ids, reordered=True)[0].tolist(), len(ids)]
    if len(borders) != len(decoded.words) + 1:
        raise Nnet3Error("the HMMs of the model end in states without pdfs", "such phones cannot be told apart here")
    names = map(loop.phones.names.__getitem__, decoded.words.tolist())
    phones = tuple(AlignedPhone(name, round(begin * seconds, 6), round(end * seconds, 6), begin, end)
                   for name, begin, end in zip(names, borders[:-1], borders[1:], strict=True))
    return DecodedPhones(phones, ids, decoded.log_likelihood / len(ids), seconds)
