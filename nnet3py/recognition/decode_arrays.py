"""Decoding whole utterances from log-likelihoods or features: words, or phones without a graph of words.

Kaldi: ``latgen-faster-mapped``.
"""
from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.advice import arguments_elsewhere
from nnet3py.decoding.decoding_graph import DecodingGraph
from nnet3py.decoding.graph import CHAIN_SELF_LOOP_SCALE, SELF_LOOP_SCALE, PhoneLoop, phone_loop
from nnet3py.decoding.lattice_decoder import Decoded, Decoder, Graph
from nnet3py.decoding.options import DecoderOptions
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.hmm.alignment import phone_starts
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object
from nnet3py.lattices.scaling import Scales, scaled
from nnet3py.network.model_place import model_in, subsampling_beside
from nnet3py.option_fields import OptionValue, with_values
from nnet3py.option_file import checked_value
from nnet3py.recognition import options as tables
from nnet3py.recognition.aligning import phone_names
from nnet3py.recognition.front_end import FrontEnd, FrontEndOutput, Sounds
from nnet3py.recognition.model_folder import ModelFolder, look_at_folder
from nnet3py.recognition.recognizer import Recognizer, acoustic_scale, read_decoding_graph
from nnet3py.recognition.results import AlignedPhone
from nnet3py.runtime.compute import compute
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import read_fst_file

FRAMES_PER_CHUNK = 150

Model = str | os.PathLike[str] | Recognizer | AcousticModel | TransitionModel


class Scorer:
    """A model that computes log-likelihoods of pdfs, with the decoding options of its folder.

    ``model``: a model folder, recognizer, acoustic model or its file; or a transition model, if the log-likelihoods are
    given. ``graph_file``: file of a decoding graph in place of the folder's own.

    Attributes
    ----------
    folder : ModelFolder; None for a model without a folder
    transitions : TransitionModel
    model : AcousticModel; None for a transition model alone

    Raises Nnet3Error for a folder without an acoustic model.
    """

    def __init__(self, model: Model, graph_file: str | None = None) -> None:
        self.folder: ModelFolder | None = None
        if isinstance(model, str | os.PathLike | Recognizer):
            self.folder = _folder(model, graph_file)
            if not self.folder.model:
                raise Nnet3Error(f"{self.folder.path}: {'; '.join(self.folder.missing)}")
            model = read_model(self.folder.model)
        if not isinstance(model, AcousticModel | TransitionModel):
            raise UsageError(f"expected a model folder, an acoustic model or a transition model, found "
                             f"{type(model).__name__}", "nnet3py.read_model('final.mdl') reads an acoustic model")
        self.model = model if isinstance(model, AcousticModel) else None
        self.transitions = model.transition_model if isinstance(model, AcousticModel) else model

    @property
    def input_dim(self) -> int:
        """Dimension of the network's input features; 0 for a transition model alone."""
        return 0 if self.model is None else self.model.nnet.input_dim("input")

    @property
    def frame_subsampling_factor(self) -> int:
        """Number of frames of features for each row of log-likelihoods."""
        return 1 if self.model is None else subsampling_beside(self.model.nnet.path)

    def decoded(self, graph: Graph | Fst, log_likes: np.ndarray, scale: float | None,
                options: DecoderOptions | Mapping[str, OptionValue] | None) -> tuple[Decoded, Decoder, float]:
        """Search a graph; return the result, the decoder and the acoustic scale (:func:`acoustic_scale` by default).

        Raises UsageError for a scale that is not above 0, Nnet3Error if no path is left.
        """
        scale = float(acoustic_scale(self.folder, self.has_priors) if scale is None else scale)
        if not 0.0 < scale < float("inf"):
            raise UsageError(f"acoustic_scale={scale:g}: expected a number above 0")
        decoder = Decoder(graph, self.transitions, self.options(options))
        decoded = decoder.decode((log_likes * np.float32(scale)).astype(np.float32))
        if decoded is None:
            raise Nnet3Error("no path through the graph is left", "a wider beam may keep one")
        return decoded, decoder, scale

    @property
    def has_priors(self) -> bool:
        """True if the model has priors; chain models have none."""
        return self.model is not None and len(self.model.priors) > 0

    def options(self, given: DecoderOptions | Mapping[str, OptionValue] | None) -> DecoderOptions:
        """Return the options of the search: the given ones, with the folder's for those that are not given."""
        if isinstance(given, DecoderOptions):
            return given
        values = dict(self.folder.options) if self.folder is not None else {}
        for name, value in (given or {}).items():
            key = name.replace("_", "-")
            values[key] = checked_value(key, str(value), tables.DECODING)
        return with_values(DecoderOptions(), values)

    def log_likes(self, given: np.ndarray | FrontEndOutput, ivector: np.ndarray | None, device: str) -> np.ndarray:
        """Return log-likelihoods with the log priors subtracted, float (frames, pdfs), given or computed from features.

        Parameters
        ----------
        given : log-likelihoods, float (frames, pdfs), which are returned as they are; features, float (frames, dim);
            or the output of a front end. An array with one column for each pdf is taken for log-likelihoods
        ivector : float (ivector dim,), for features

        Raises ShapeError for an array whose columns are neither the pdfs nor the network's input.
        """
        if isinstance(given, FrontEndOutput):
            return self._compute(given.features, given.ivector if ivector is None else ivector, device)
        matrix = np.asarray(given)
        num_pdfs, input_dim = self.transitions.num_pdfs, self.input_dim
        if matrix.ndim != 2 or matrix.shape[1] not in (num_pdfs, input_dim):
            features = f", or features of dimension {input_dim}" if input_dim else ""
            raise ShapeError(f"expected log-likelihoods (frames, {num_pdfs}){features}, found an array of shape "
                             f"{matrix.shape}", "of a sound: nnet3py.Recognizer(folder).transcribe('a.wav')"
                             if matrix.ndim < 2 else "the model must be that of the graph and of the arrays")
        return matrix if matrix.shape[1] == num_pdfs else self._compute(matrix, ivector, device)

    def _compute(self, feats: np.ndarray, ivector: np.ndarray | None, device: str) -> np.ndarray:
        if self.model is None:
            raise UsageError("a transition model cannot compute log-likelihoods of features", "give an acoustic model")
        output = compute(self.model, feats, ivector, frames_per_chunk=FRAMES_PER_CHUNK, device=device,
                         frame_subsampling_factor=self.frame_subsampling_factor)
        if not self.has_priors:
            return output
        if self.model.priors.size != output.shape[1]:
            raise ShapeError(f"the model has {self.model.priors.size} priors, its network {output.shape[1]} outputs",
                             "set them with nnet3-am-adjust-priors")
        return output - np.log(self.model.priors)


def _folder(model: str | os.PathLike[str] | Recognizer, graph_file: str | None) -> ModelFolder:
    if not isinstance(model, Recognizer):
        return look_at_folder(_place_of(os.fspath(model)), graph_file)
    return model.folder if graph_file is None else look_at_folder(model.folder.path, graph_file)


def _place_of(path: str) -> str:
    """Return the model folder in which an acoustic model lies; for any other path the path itself."""
    above = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    return above if os.path.isfile(path) and os.path.abspath(path) == model_in(above) else path


GraphOrFile: TypeAlias = "Graph | Fst | str | os.PathLike[str]"


@dataclass(frozen=True, eq=False)
class DecodedText:
    """The words of an utterance.

    Attributes
    ----------
    words : names of the words; their numbers if the names are not known
    word_ids : int32 (words,), numbers of the words
    transition_ids : int32 (frames,), of the best path
    graph_cost, acoustic_cost : costs of the best path; the acoustic cost includes the acoustic scale
    lattice : CompactLattice, one path for each sequence of words within the lattice beam; acoustic costs without the
        acoustic scale, as Kaldi writes it
    reached_final : whether the best path ends in a final state of the graph
    """

    words: tuple[str, ...]
    word_ids: NDArray[np.int32] = field(repr=False)
    transition_ids: NDArray[np.int32] = field(repr=False)
    graph_cost: float
    acoustic_cost: float
    lattice: CompactLattice = field(repr=False)
    reached_final: bool

    @property
    def text(self) -> str:
        """Words, separated by blanks."""
        return " ".join(self.words)


@arguments_elsewhere(
    beam_or_max_active_or_lattice_beam="options={'beam': 13}", scale_or_acwt="acoustic_scale=", fst_or_hclg="graph=",
    ivectors="ivector=", feats_or_features="they come second: decode(folder, feats)")
def decode(model: Model, log_likes: np.ndarray | FrontEndOutput, graph: GraphOrFile | None = None, *,
           ivector: np.ndarray | None = None, options: DecoderOptions | Mapping[str, OptionValue] | None = None,
           acoustic_scale: float | None = None, words: str | os.PathLike[str] | SymbolTable | None = None,
           device: str = "cpu") -> DecodedText:
    """Decode an utterance, given by the network's outputs or by features.

    Parameters
    ----------
    model : a model folder, a recognizer, an acoustic model or its file; or, for log-likelihoods, only its transition
        model
    log_likes : float (frames, pdfs), log-likelihoods without acoustic scale and priors: outputs of :func:`compute` for
        a chain model, of :class:`UtteranceComputer` with priors for others. Or features, float (frames, dim of the
        network's input), told apart by the number of columns; or the output of :func:`front_end`
    graph : HCLG, in memory or a file (or HCLr.fst with Gr.fst beside it); None: the model folder's own
    ivector : float (ivector dim,), for features
    options : DecoderOptions, or some options of the search by Kaldi's names, such as ``{"beam": 13}``; the others are
        the folder's, or the defaults of :class:`DecoderOptions`
    acoustic_scale : scale of the log-likelihoods; None: the folder's, or else 1 without priors, 0.1 with priors
    words : SymbolTable or its file; None: the folder's, or words.txt beside the graph
    device : ``cpu`` or ``cuda``, for the network

    Returns
    -------
    DecodedText : the words of the best path, and the lattice

    Raises
    ------
    ShapeError : arrays with another number of columns than model and graph have
    Nnet3Error : missing files, files that do not fit each other, no path left
    """
    scorer = _GraphScorer(model, graph, words)
    decoded, decoder, scale = scorer.decoded(scorer.graph, scorer.log_likes(log_likes, ivector, device), acoustic_scale,
                                             options)
    lattice = scaled(decoder.determinize(decoded).lattice, Scales(1.0, 1.0 / scale))
    return DecodedText(scorer.names(decoded.words), decoded.words, decoded.alignment, decoded.graph_cost,
                       decoded.acoustic_cost, lattice, decoded.reached_final)


class _GraphScorer(Scorer):
    """A scorer with a decoding graph and a table of words."""

    def __init__(self, model: Model, graph: GraphOrFile | None, words: str | os.PathLike[str] | SymbolTable | None
                 ) -> None:
        graph_file = os.fspath(graph) if isinstance(graph, str | os.PathLike) else None
        super().__init__(model, graph_file)
        if graph_file is not None and self.folder is None:
            self.graph: Graph | Fst = DecodingGraph.read(graph_file, self.transitions)
        elif isinstance(graph, str | os.PathLike) or graph is None:
            self.graph = self._graph_of_folder()
        else:
            self.graph = graph
        self._words = self._table(words, graph_file)

    def _graph_of_folder(self) -> Graph:
        if self.folder is None:
            raise UsageError("there is no graph to search", "give graph=, or the folder of a model that has one; "
                             "decode_phones needs none")
        if not self.folder.graph:
            raise Nnet3Error(f"{self.folder.path}: {'; '.join(self.folder.missing)}", "give graph=; decode_phones "
                             "needs none")
        return read_decoding_graph(self.folder, self.transitions)

    def _table(self, words: str | os.PathLike[str] | SymbolTable | None, graph_file: str | None) -> SymbolTable | None:
        if isinstance(words, SymbolTable):
            return words
        path = os.fspath(words) if words is not None else self.folder.words if self.folder is not None else ""
        if not path and graph_file is not None:
            beside = os.path.join(os.path.dirname(graph_file), "words.txt")
            path = beside if os.path.isfile(beside) else ""
        return SymbolTable.read(path) if path else None

    def names(self, numbers: np.ndarray) -> tuple[str, ...]:
        """Return the names of words, or their numbers if there is no table."""
        if self._words is None:
            return tuple(map(str, numbers.tolist()))
        table = self._words
        return tuple(table.text([number]) for number in numbers.tolist())


_FRAME_SHIFT = 0.01            # seconds, Kaldi's default


@dataclass(frozen=True, eq=False)
class DecodedPhones:
    """The phones of an utterance.

    Attributes
    ----------
    phones : tuple of AlignedPhone, of the whole utterance with silence
    transition_ids : int32 (frames,), of the best path
    log_likelihood : log-likelihood of the best path per frame, with acoustic scale and costs of the phone loop
    seconds_per_frame : seconds from one frame of the network's output to the next
    """

    phones: tuple[AlignedPhone, ...]
    transition_ids: NDArray[np.int32] = field(repr=False)
    log_likelihood: float
    seconds_per_frame: float

    @property
    def names(self) -> list[str]:
        """Names of the phones, for :func:`nnet3py.wer`."""
        return [phone.phone for phone in self.phones]

    @property
    def text(self) -> str:
        """Names, separated by blanks."""
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

    The phones are those of the best path through a loop of all phones, which are equally probable and may follow each
    other, or themselves, in any order. Each state of a phone's HMM may have the pdf of any context, the same pdf for as
    long as the state lasts. Phones whose HMMs have the same pdfs are treated as the first of them; the marks of
    positions in words (``_B``, ``_I``, ``_E``, ``_S``) are left out of the names. Silence is a phone like others.

    With a tree, pdfs depend on the neighboring phones; with a phone language model, phones are weighted as in training.
    The folder of Kaldi's chain training has both: tree and phone_lm.fst.

    Parameters
    ----------
    model : a model folder, a recognizer, an acoustic model or its file; or, for log-likelihoods, only its transition
        model
    sound : log-likelihoods, features, or the output of :func:`front_end`, as for :func:`decode`; with a model folder
        also a file of sound, or samples as for :func:`features`
    rate : samples a second, of samples
    ivector : float (ivector dim,), for features
    channel : number of a sound's channel, from 0; None: the only channel, or the mean of a file's channels
    insertion_penalty : cost added for each phone; negative: more and shorter phones
    tree : decision tree of the model, or its file
    phone_lm : an acceptor of phones, by the model's numbers, or its file; needs ``tree``
    phones : names of the phones, by number or in a file like phones.txt; None: the folder's phones.txt, or else numbers
    acoustic_scale : scale of the log-likelihoods; None: the folder's, or else 1 without priors, 0.1 with priors
    options : options of the search, as for :func:`decode`
    device : ``cpu`` or ``cuda``, for the network

    Returns
    -------
    DecodedPhones : the phones with their times, in seconds (frames are 0.01 s apart where no folder says another
    number) and in frames

    Raises
    ------
    ShapeError : arrays of another number of columns than the model has
    Nnet3Error : missing files, files that do not fit each other, no sound, no path left
    """
    scorer = Scorer(model)
    given, seconds = _features(scorer, sound, rate, channel)
    matrix = scorer.log_likes(given, ivector, device)
    if not len(matrix):
        raise Nnet3Error("there are no frames", "is the sound shorter than a window, or the rate wrong?")
    loop = phone_loop(scorer.transitions, _names(scorer, phones), insertion_penalty=insertion_penalty,
                      self_loop_scale=SELF_LOOP_SCALE if scorer.has_priors else CHAIN_SELF_LOOP_SCALE,
                      tree=read_object(tree, ContextDependency.read) if isinstance(tree, str | os.PathLike) else tree,
                      phone_lm=read_fst_file(os.fspath(phone_lm)) if isinstance(phone_lm, str | os.PathLike)
                      else phone_lm)
    decoded, _, _ = scorer.decoded(loop.graph, matrix, acoustic_scale, options)
    return _result(scorer, loop, decoded, seconds * scorer.frame_subsampling_factor)


def _features(scorer: Scorer, sound: Sounds | FrontEndOutput, rate: float | None,
              channel: int | None) -> tuple[np.ndarray | FrontEndOutput, float]:
    """Return the network's input for a sound, and the seconds from one of its frames to the next.

    An array (frames, columns) without ``rate``, features or log-likelihoods, is returned as it is.
    """
    folder = scorer.folder
    shift = float(folder.features.get("frame-shift", 1000.0 * _FRAME_SHIFT)) / 1000.0 if folder else _FRAME_SHIFT
    if isinstance(sound, FrontEndOutput) or (isinstance(sound, np.ndarray) and sound.ndim == 2 and rate is None):
        return sound, shift
    if folder is None:
        raise UsageError("features of a sound need the options in the model's folder, which was not given",
                         "give the folder of the model, or features")
    missing = [line for line in folder.missing if line not in folder.missing_graph]
    if missing:
        raise Nnet3Error(f"{folder.path} cannot be used for recognition: {'; '.join(missing)}",
                         "'nnet3py inspect' describes it")
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
        raise Nnet3Error("the model has HMMs that end in states without pdfs, so that the beginnings of phones cannot "
                         "be found", "decode_phones needs a model with another topology")
    phones = tuple(
        AlignedPhone(loop.phones.names[phone], round(begin * seconds, 6), round(end * seconds, 6), begin, end)
        for phone, begin, end in zip(decoded.words.tolist(), borders[:-1], borders[1:], strict=True))
    return DecodedPhones(phones, ids, decoded.log_likelihood / len(ids), seconds)
