"""A loaded model folder, which any number of streams share; files and arrays of sound transcribed as a whole."""
from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.advice import Advising, arguments_elsewhere, elsewhere
from nnet3py.cached_property import cached_property
from nnet3py.compiler.disk_cache import default_folder
from nnet3py.decoding.composed_graphs import LookaheadGraph
from nnet3py.decoding.decoding_graph import DecodingGraph
from nnet3py.decoding.lattice_decoder import Graph
from nnet3py.decoding.options import DecoderOptions
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import Nnet3Error, UsageError, within
from nnet3py.feat.speech import speech_options
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.streams import read_integer_lines
from nnet3py.lattices.determinize_options import PhoneDeterminizeOptions
from nnet3py.network.inference import prepare_for_test
from nnet3py.option_fields import OptionValue, with_values
from nnet3py.recognition import options as tables
from nnet3py.recognition.model_folder import KALDI, LOOKAHEAD_FILES, ONLINE, ModelFolder, find_model, read_model_folder
from nnet3py.recognition.options import EndpointOptions
from nnet3py.recognition.pipeline import FeaturePipeline, PipelineModels, SpeakerState, pipeline_models
from nnet3py.recognition.results import Result, ResultMaker, aligner, rescorer
from nnet3py.recognition.silence import is_silence
from nnet3py.recognition.sound import Sound, open_sound
from nnet3py.recognition.speaker import SpeakerModel, SpeakerStream
from nnet3py.recognition.stream import Block, Stream
from nnet3py.recognition.stream_decoder import StreamDecoder
from nnet3py.rnnlm.model import RnnLanguageModel
from nnet3py.runtime.looped import LoopedComputer

if TYPE_CHECKING:
    from nnet3py.recognition.transcribing import Transcript

logger = logging.getLogger(__name__)

_KEPT_GRAPHS = 8           # graphs of phrases and boosted words that are kept for streams with the same phrases
_CHAIN_SCALE = 1.0


class Recognizer(Advising):
    """A recognizer of speech, read from a model folder in a layout of :mod:`~nnet3py.recognition.model_folder`.

    Parameters
    ----------
    path : the model folder; or an acoustic model in a model folder
    graph : a graph, or a folder with a graph; None: the model folder's own
    options : options by Kaldi's names, such as ``{"beam": 13}``, which take precedence over those of the folder;
        ``chunk-length`` is the number of seconds of sound decoded at a time, for blocks of any size
    device : ``cpu`` or ``cuda``, for the network
    speaker_model : SpeakerModel or its folder, which gives results speaker vectors; None: no speaker vectors

    Attributes
    ----------
    folder : ModelFolder
    sample_rate : samples a second that the model was trained for; other sound is resampled
    words : SymbolTable
    speaker_model : SpeakerModel or None

    Raises
    ------
    Nnet3Error : files are missing, or do not fit each other; they are named
    UsageError : an unknown option
    """

    _WHAT: ClassVar[str] = "a recognizer"
    _ELSEWHERE: ClassVar[Mapping[str, str]] = elsewhere(**{
        "recognize recognize decode predict transcribe_file": "recognizer.transcribe('a.wav')",
        "accept_waveform AcceptWaveform accept feed": "stream = recognizer.stream(); stream.accept_waveform(samples)",
        "vocabulary vocab lexicon symbols": "recognizer.words", "rate sampling_rate": "recognizer.sample_rate",
        "align": "nnet3py.align('model-folder', 'a.wav', 'the words')",
        "model nnet": "nnet3py.read_model(recognizer.folder.model)", "beam options": "Recognizer(folder, options={"
        "'beam': 13})", "Result FinalResult PartialResult": "of a stream: stream.result().text, stream.partial"})

    def __init__(self, path: str | os.PathLike[str], graph: str | os.PathLike[str] | None = None, *,
                 options: Mapping[str, OptionValue] | None = None, device: str = "cpu",
                 speaker_model: str | os.PathLike[str] | SpeakerModel | None = None) -> None:
        if not isinstance(path, str | os.PathLike):
            raise UsageError(f"expected a model folder, found {type(path).__name__}",
                             "nnet3py.Recognizer('model-folder'): it needs the graph and the features' options, too")
        folder = self.folder = read_model_folder(path, graph, options)
        for line in folder.unused:
            logger.warning("%s", line)
        values = folder.options
        self._models = folder_pipeline(folder)
        self.sample_rate = self._models.features.rate
        model = read_model(folder.model)
        self._transitions = model.transition_model
        self._decoder_options = with_values(DecoderOptions(), values)
        self._decoder_options.check()
        self._determinize_options = with_values(PhoneDeterminizeOptions(), values)
        self._endpoint_options = tables.endpoint_options(values)
        self._chunk_seconds = float(values.get("chunk-length", tables.DECODING["chunk-length"]))
        self.words = SymbolTable.read(folder.words)
        self._graph = read_decoding_graph(folder, model.transition_model)
        self._changed_graphs: OrderedDict[Any, Graph] = OrderedDict()
        self.looped = _looped(model, folder, device)
        scale = acoustic_scale(folder, len(model.priors) > 0)
        self._results = ResultMaker(
            self.words, self._transitions, self._models.frame_shift * self.looped.frame_subsampling_factor, scale,
            aligner(self._transitions, folder.word_boundary, folder.align_lexicon),
            rescorer(folder.old_grammar, folder.new_grammar, _rnnlm(folder, self.words, device)))
        self.speaker_model = _speaker_model(speaker_model)
        self.decoder(self._graph)                          # raises an error now if files do not fit each other

    @classmethod
    def find(cls, lang: str | None = None, *, name: str | None = None, graph: str | os.PathLike[str] | None = None,
             options: Mapping[str, OptionValue] | None = None, device: str = "cpu",
             speaker_model: str | os.PathLike[str] | SpeakerModel | None = None) -> Recognizer:
        """Return the recognizer of a published model by its language or name, such as ``Recognizer.find("ko")``.

        Models are looked for in the folders where vosk looks, by
        :func:`~nnet3py.recognition.model_folder.find_model`. The other parameters are those of the class.
        """
        return cls(find_model(lang, name), graph, options=options, device=device, speaker_model=speaker_model)

    @property
    def keeps_state(self) -> bool:
        """True if the state of streams can be saved (:mod:`~nnet3py.recognition.transcribing`): not on a GPU."""
        return isinstance(self.looped._states.buffer, np.ndarray)

    @property
    def endpoint_options(self) -> EndpointOptions:
        """The model's rules of when an utterance is over; those of a stream are :attr:`Stream.endpoint_options`."""
        return self._endpoint_options

    def __repr__(self) -> str:
        return f"<Recognizer: {self.folder.model}, {len(self.words):,} words, {self.sample_rate:g} samples a second>"

    # -- streams -------------------------------------------------------------------------------------------------------

    def stream(self, sample_rate: float | None = None, *, phrases: Sequence[str] = (),
               boost: Mapping[str, float] | None = None, phrase_list: Sequence[str] | None = None,
               endpointing: bool = True, adaptation: SpeakerState | None = None, at_once: bool = False,
               speaker_model: str | os.PathLike[str] | SpeakerModel | None = None) -> Stream:
        """Begin a stream of sound. Any number of streams share the model, the graph and compiled computations.

        Parameters
        ----------
        sample_rate : samples a second of the sound; None: those of the model
        phrases : the only phrases that can be recognized, each any number of times; empty: the model's grammar
        boost : reductions of the costs of words: natural logarithms of the factors of their probabilities
        phrase_list : phrases in vosk's sense: words follow each other as in the phrases or, less likely, otherwise.
            Unknown words are left out, and the whole list if the graph is in one part, with a warning. None, or an
            empty list: the model's grammar
        endpointing : whether to look for ends of utterances
        adaptation : SpeakerState of an earlier stream of the same speaker (:attr:`Stream.adaptation`)
        at_once : whether blocks are decoded as they come, as in vosk, instead of in pieces of a fixed length
        speaker_model : in place of the recognizer's

        Raises
        ------
        UsageError : phrases or boosted words without HCLr.fst and Gr.fst in the folder, or with unknown words
        """
        rate = self.sample_rate if sample_rate is None else float(sample_rate)
        if not 1 <= rate < float("inf"):
            raise UsageError(f"sample_rate={rate:g}: expected samples a second, such as 16000")
        for name, given in (("phrases", phrases), ("phrase_list", phrase_list)):
            if isinstance(given, str):
                raise UsageError(f"{name}={given!r}: expected a list of phrases", f"{name}=[{given!r}]")
        graph = self._graph_with(tuple(phrases), tuple(sorted((boost or {}).items())),
                                 self._known(phrase_list) if phrase_list else ())
        return Stream(self.decoder(graph, adaptation), self._results, rate, self._chunk_seconds,
                      float(self.folder.features.get("dither", _dither(self.folder))), endpointing,
                      self._determinize_options, at_once, self._speaker_stream(speaker_model))

    def _speaker_stream(self, speaker_model: str | os.PathLike[str] | SpeakerModel | None) -> SpeakerStream | None:
        model = self.speaker_model if speaker_model is None else _speaker_model(speaker_model)
        if model is None:
            return None
        return SpeakerStream(model, is_silence(self._transitions, self._endpoint_options.silence_phones),
                             self.looped.frame_subsampling_factor)

    def decoder(self, graph: Graph | None = None, adaptation: SpeakerState | None = None) -> StreamDecoder:
        """Return a new decoder for one stream, with the model's graph or another one."""
        return StreamDecoder(FeaturePipeline(self._models, adaptation), self.looped, graph or self._graph,
                             self._transitions, self._decoder_options, self._endpoint_options)

    def _known(self, phrase_list: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Return the word-ids of each phrase, without unknown words; () if the graph cannot take phrases.

        Logs a warning in both cases.
        """
        if not self.folder.takes_phrases:
            logger.warning("A phrase list has no effect: %s is not composed while decoding", self.folder.graph)
            return ()
        words = [[word for word in phrase.split(" ") if word] for phrase in phrase_list]
        unknown = sorted({word for phrase in words for word in phrase if word not in self.words})
        if unknown:
            logger.warning("Words of a phrase list that the model does not know are left out: %s", ", ".join(unknown))
        return tuple(tuple(self.words[word] for word in phrase if word in self.words) for phrase in words)

    def _graph_with(self, phrases: tuple[str, ...], boost: tuple[tuple[str, float], ...],
                    phrase_list: tuple[tuple[int, ...], ...] = ()) -> Graph:
        """Return the model's graph changed by phrases, boosted words or a phrase list; changed graphs are cached."""
        if not phrases and not boost and not phrase_list:
            return self._graph
        if not self.folder.takes_phrases:
            raise UsageError(f"phrases and boosted words need a graph that is composed while decoding, HCLr.fst and "
                             f"Gr.fst; this model has {self.folder.graph}", "take a model with a lookahead graph")
        if phrases and phrase_list:
            raise UsageError("found phrases and phrase_list, each in place of the model's grammar", "give one of them")
        key = phrases, boost, phrase_list
        graph = self._changed_graphs.pop(key, None)
        if graph is None:
            lookahead = self._lookahead_graph
            graph = self._changed_graph(lookahead.with_phrase_list(phrase_list) if phrase_list else lookahead, phrases,
                                        boost)
        self._changed_graphs[key] = graph
        while len(self._changed_graphs) > _KEPT_GRAPHS:
            self._changed_graphs.popitem(last=False)
        return graph

    @cached_property
    def _lookahead_graph(self) -> LookaheadGraph:
        """LookaheadGraph of the folder, to be changed by phrases and boosted words."""
        if isinstance(self._graph, LookaheadGraph):
            return self._graph
        return read_phrase_graph(self.folder, self._transitions)

    def _changed_graph(self, graph: LookaheadGraph, phrases: tuple[str, ...],
                       boost: tuple[tuple[str, float], ...]) -> LookaheadGraph:
        if phrases:
            numbers = [[self._number(word) for word in phrase.split()] for phrase in phrases]
            if not all(numbers):
                raise UsageError("expected phrases of one or more words, found one without words")
            graph = graph.with_phrases(numbers)
        if boost:
            if not all(abs(cost) < float("inf") for _, cost in boost):
                raise UsageError(f"expected finite numbers to boost words by, found {dict(boost)}")
            graph = graph.with_boosted({self._number(word): float(cost) for word, cost in boost})
        return graph

    def _number(self, word: str) -> int:
        number = self.words[word] if word in self.words else 0
        if not number:
            raise UsageError(f"the model does not know the word '{word}'", f"its words are in {self.folder.words}")
        return number

    def __call__(self, sound: str | os.PathLike[str] | np.ndarray | bytes | Sound,
                 sample_rate: float | None = None) -> Result:
        """Recognize a whole sound, as :meth:`transcribe`.

        ``sound`` is a file, or samples: bytes, int16 (samples,), or float (samples,) from -1 to 1.
        """
        return self.transcribe(sound, sample_rate)

    # -- whole sounds --------------------------------------------------------------------------------------------------

    @arguments_elsewhere(rate_or_sampling_rate="sample_rate=", beam="Recognizer(folder, options={'beam': 13})",
                         language="Recognizer.find('ko')")
    def transcribe(self, sound: str | os.PathLike[str] | np.ndarray | bytes | Sound, sample_rate: float | None = None,
                   *, channel: int | None = None, endpointing: bool = True, phrases: Sequence[str] = (),
                   boost: Mapping[str, float] | None = None) -> Result:
        """Recognize a whole sound. The words are those of a stream with blocks of any size.

        Parameters
        ----------
        sound : a file (WAVE, and others with the extras ``sound`` and ``media``), ``-`` for standard input; or samples:
            bytes of 16-bit samples, int16 (samples,), or float (samples,) from -1 to 1
        sample_rate : samples a second, of samples; None: that of the model
        channel : number of a file's channel, from 0; None: the mean of the channels
        endpointing : whether a new segment begins after the end of an utterance (the result's ``segments``); if not, a
            long sound is one utterance, which takes memory and time
        phrases, boost : as for :meth:`stream`

        Raises
        ------
        Nnet3Error : a file that cannot be read, or invalid samples. A sound too short for a single frame is no error
        """
        if isinstance(sound, str | os.PathLike):
            sound = open_sound(os.fspath(sound), channel)
        if isinstance(sound, Sound):
            with within(sound.name):
                stream = self.stream(sound.rate, phrases=phrases, boost=boost, endpointing=endpointing)
                return Result.joined(_segments(stream, sound.blocks()))
        stream = self.stream(sample_rate, phrases=phrases, boost=boost, endpointing=endpointing)
        return Result.joined(_segments(stream, [sound]))

    def transcribe_files(self, sounds: Iterable[str | os.PathLike[str]], *, num_jobs: int = 1,
                         results: str | os.PathLike[str] | None = None, channel: int | None = None,
                         endpointing: bool = True, phrases: Sequence[str] = (),
                         boost: Mapping[str, float] | None = None) -> Iterator[Transcript]:
        """Transcribe files of sound, and yield a transcript of each, with its ``error`` if a file cannot be read.

        Parameters
        ----------
        sounds : files, and folders, of which all files of sound are taken
        num_jobs : number of files at a time, in threads of this process; ``nnet3py transcribe --num-jobs`` uses
            processes, which is faster with small networks
        results : file to which transcripts are appended as JSON lines when they are done. The same call after an
            interruption does the rest: sounds in the file are left out, and a long sound continues at most two minutes
            before the interruption. None: transcripts are only yielded
        channel, endpointing, phrases, boost : as for :meth:`transcribe`

        Yields
        ------
        Transcript, in the order of the sounds; with ``results``, as they are done

        Raises
        ------
        UsageError : files or folders that do not exist
        Nnet3Error : another process writes ``results``
        """
        from contextlib import nullcontext
        from functools import partial

        from nnet3py.recognition.batch import ResultsFile, here, in_order, in_threads
        from nnet3py.recognition.sound import find_sounds
        from nnet3py.recognition.transcribing import SoundOptions, model_name, transcribe_sound

        if num_jobs < 1:
            raise UsageError(f"num_jobs={num_jobs}: expected 1 or more")
        waiting = find_sounds([os.fspath(sound) for sound in sounds], names_differ=False)
        with ResultsFile(os.fspath(results), model_name(self.folder)) if results else nullcontext() as file:
            if file is not None:
                waiting = file.waiting(waiting)
            wanted = SoundOptions(channel, endpointing, tuple(phrases), dict(boost or {}),
                                  kept="" if file is None else file.kept)
            run = here if num_jobs == 1 else in_threads(num_jobs)
            done = run(partial(transcribe_sound, self, wanted), waiting, lambda sound, seconds, duration: None)
            for sound, transcript in in_order(waiting, done) if file is None else done:
                if file is not None and not transcript.error:
                    file.add(sound, transcript)
                yield transcript


def folder_pipeline(folder: ModelFolder) -> PipelineModels:
    """Read the settings and models that turn sound of any sampling rate into the network's input, without dither.

    Raises Nnet3Error for invalid files.
    """
    speech = speech_options(folder.feature_kind, {
        **folder.features, "dither": 0.0, "allow-downsample": True, "allow-upsample": True})
    return pipeline_models(speech, folder.options, folder.cmvn, folder.ivectors, folder.pitch)


def _segments(stream: Stream, blocks: Iterable[Block]) -> list[Result]:
    """Pass all blocks to a stream, finish it, and return the results of its segments in order."""
    segments = []
    for block in blocks:
        stream.accept_waveform(block)
        while stream.endpoint:
            segments.append(stream.result())
    return [*segments, stream.finish()]


def read_decoding_graph(folder: ModelFolder, model: TransitionModel) -> DecodingGraph | LookaheadGraph:
    """Read a model folder's graph: HCLG.fst, or HCLr.fst and Gr.fst. Raises Nnet3Error for invalid files."""
    if not folder.is_lookahead:
        return DecodingGraph.read(folder.graph, model)
    return _read_lookahead_graph(folder.graph, folder.grammar, folder.disambig, model)


def read_phrase_graph(folder: ModelFolder, model: TransitionModel) -> LookaheadGraph:
    """Read the lookahead graph (HCLr.fst, Gr.fst) for phrases that a folder has besides its HCLG.fst.

    Raises Nnet3Error for invalid files.
    """
    beside = os.path.dirname(folder.phrase_graph)
    hcl, grammar, disambig = (os.path.join(beside, name) for name in LOOKAHEAD_FILES)
    return _read_lookahead_graph(hcl, grammar, disambig, model)


def _read_lookahead_graph(hcl: str, grammar: str, disambig: str, model: TransitionModel) -> LookaheadGraph:
    labels = [number for line in read_integer_lines(disambig) for number in line]
    return LookaheadGraph.read(hcl, grammar, labels, model)


def _looped(model: AcousticModel, folder: ModelFolder, device: str) -> LoopedComputer:
    values = {**tables.LOOPED, **folder.options}
    return LoopedComputer(prepare_for_test(model.nnet), values["frames-per-chunk"],
                          extra_left_context_initial=values["extra-left-context-initial"],
                          frame_subsampling_factor=values["frame-subsampling-factor"],
                          acoustic_scale=acoustic_scale(folder, len(model.priors) > 0), priors=model.priors,
                          device=device, cache_dir=default_folder())


def _rnnlm(folder: ModelFolder, words: SymbolTable, device: str) -> RnnLanguageModel | None:
    """Read the folder's RNN language model, if it has one. Raises Nnet3Error if it lacks words of the recognizer."""
    if not folder.rnnlm:
        return None
    model = RnnLanguageModel(folder.rnnlm, words=folder.words, device=device)
    num_words, own = model.embedding.num_words, model.files.words
    wrong = words.first_beyond(num_words)
    if not wrong and os.path.dirname(own).startswith(os.path.normpath(folder.rnnlm)):
        names = SymbolTable.read(own).names
        wrong = next((name for number, name in words.names.items() if names.get(number, name) != name), "")
    if wrong:
        raise Nnet3Error(f"the language model in {folder.rnnlm}, of {num_words - 1} words, does not have the word "
                         f"'{wrong}' of {folder.words} with its number, {words[wrong]}",
                         "it was made for other words; --model-option=rnnlm=false, or options={'rnnlm': False}, does "
                         "without it")
    return model


def _speaker_model(model: str | os.PathLike[str] | SpeakerModel | None) -> SpeakerModel | None:
    return SpeakerModel.read(model) if isinstance(model, str | os.PathLike) else model


def acoustic_scale(folder: ModelFolder | None, has_priors: bool) -> float:
    """Return the option acoustic-scale of a folder, or else its default: 1 without priors (chain), 0.1 with priors.

    In a folder of vosk's layout the default is always 0.1, as in vosk. None: a model without a folder.
    """
    if folder is not None and ("acoustic-scale" in folder.options or folder.layout not in (KALDI, ONLINE)):
        return float(folder.options.get("acoustic-scale", tables.LOOPED["acoustic-scale"]))
    return float(tables.LOOPED["acoustic-scale"]) if has_priors else _CHAIN_SCALE


def _dither(folder: ModelFolder) -> float:
    return float(tables.of_features(folder.feature_kind)["dither"])
