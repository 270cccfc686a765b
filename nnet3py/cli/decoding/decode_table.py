"""Decoding of utterances, for all commands that decode: options, the search, output tables and log lines."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from nnet3py import log
from nnet3py.cli.nnet.utterances import IvectorSource, check_ivector_options, compute_options
from nnet3py.cli.process.option_groups import set_up, without
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.decoding.options import DecoderOptions
from nnet3py.errors import NumericError, within
from nnet3py.lattices.determinize_options import PhoneDeterminizeOptions
from nnet3py.option_fields import settings_of, with_values

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.acoustic_model import AcousticModel
    from nnet3py.decoding.lattice_decoder import Decoded, Decoder, Graph
    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.hmm.transition_model import TransitionModel

DECODER = (
    *without(declared(settings_of(DecoderOptions)), "prune-scale"),
    *(option(f"memory-pool-{kind}-block-size", int, 256, "No effect: it is about Kaldi's memory")
      for kind in ("tokens", "links")),
    option("determinize-lattice", bool, True, "Write compact lattices, with one path for each word sequence; false: "
           "state-level lattices, with all paths within --lattice-beam"),
    *declared(settings_of(PhoneDeterminizeOptions)),
    option("allow-partial", bool, False, "If no final state is reached, write the best paths to other states"),
    option("word-symbol-table", str, "", "words.txt, for showing words on standard error"),
)

LATTICES_HELP = """
Lattices are compact and determinized, with unscaled acoustic costs: give the acoustic scale again to programs that read
the lattices.
"""


class Computes(Protocol):
    """Interface of objects that compute a network's output for an utterance."""

    def compute(self, feats: np.ndarray, ivector: np.ndarray | None = None, online_ivectors: np.ndarray | None = None,
                online_ivector_period: int = 0) -> np.ndarray:
        """Return the output minus log priors, times the acoustic scale: float32 (frames, output dim)."""


def utterance_computer(model: AcousticModel, options: Options, device: str) -> Computes:
    """Return a computer of utterances, chunk by chunk, with the options of the group ``SIMPLE``."""
    from nnet3py.network.inference import prepare_for_test
    from nnet3py.runtime.compute import UtteranceComputer

    return UtteranceComputer(prepare_for_test(model.nnet), compute_options(options), model.priors, device)


def decode_features(args: list[str], options: Options,
                    make_computer: Callable[[AcousticModel, Options, str], Computes] = utterance_computer,
                    in_threads: bool = False, read_graph: Callable[[TransitionModel], Graph] | None = None) -> int:
    """Decode a table of features with an acoustic model; return the exit status.

    Parameters
    ----------
    args : names of model, graph (a file or a table), features, lattices, and perhaps words and alignments
    options : options of the command
    make_computer : function of model, options and device that makes the computer of the network's output
    in_threads : whether ``--num-threads`` utterances are searched at a time
    read_graph : function of the transition model that reads the graph; None: a usual graph, ``args[1]``
    """
    from nnet3py.acoustic_model import read_model
    from nnet3py.engine.threads import num_threads

    check_ivector_options(options)
    device = set_up(options)
    model = read_model(args[0])
    computer = make_computer(model, options, device)
    with IvectorSource(options) as ivectors:
        def log_likes(key: str, feats: np.ndarray) -> np.ndarray | None:
            try:
                ivector, online_ivectors = ivectors.find(key)
            except KeyError as error:
                log.warning(f"No {error.args[0]} available for utterance {key}")
                return None
            return computer.compute(feats, ivector, online_ivectors, options.online_ivector_period)

        inputs = decoder_inputs(args[1], args[2], model.transition_model, read_graph)
        return decode_table(args[3:], options, model.transition_model, inputs, log_likes,
                            options.frame_subsampling_factor, num_threads() if in_threads else 1)


def decoder_options(options: Options) -> DecoderOptions:
    """Return the decoder's options, from the group ``DECODER``."""
    return with_values(DecoderOptions(), {**options.as_dict(),
                                          "min-active": min(options.min_active, options.max_active)})


def decode_table(wspecifiers: list[str], options: Options, model: TransitionModel,
                 inputs: Iterable[tuple[str, Graph | None, Any]],
                 log_likes: Callable[[str, Any], np.ndarray | None], frame_subsampling_factor: int = 1,
                 num_threads: int = 1) -> int:
    """Decode utterances, and write lattices, words and alignments; return the exit status.

    Parameters
    ----------
    wspecifiers : names of the output tables: lattices, and perhaps words and alignments
    options : options of the command
    model : transition model of the graphs
    inputs : keys, graphs and matrices; the graph is None for an utterance that has failed already
    log_likes : function of key and matrix that returns log-likelihoods with the acoustic scale, or None, with a warning
    frame_subsampling_factor : input frames per frame of log-likelihoods, for the logged real-time factor
    num_threads : threads that search; log-likelihoods are computed by the calling thread only
    """
    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.io.read_ahead import map_ahead

    start = time.perf_counter()
    words = SymbolTable.read(options.word_symbol_table) if options.word_symbol_table else None
    total = _Totals()
    search = _Search(options, model, keep_decoder=num_threads < 2)
    tasks = (_task(key, graph, matrix, log_likes) for key, graph, matrix in inputs)
    with _Outputs(wspecifiers, options) as outputs:
        for result in map_ahead(search, tasks, num_threads):
            if result is None:
                total.failed += 1
                continue
            _report(result, words)
            outputs.write(result)
            total.add(result)
    total.report(time.perf_counter() - start, frame_subsampling_factor)
    return 0 if total.done else 1


class _Task(NamedTuple):
    """Utterance to decode."""

    key: str
    graph: Graph
    log_likes: np.ndarray


class _Result(NamedTuple):
    """Decoded utterance, and its lattice to write: compact if it was determinized."""

    key: str
    decoded: Decoded
    lattice: Any


def _task(key: str, graph: Graph | None, matrix: Any,
          log_likes: Callable[[str, Any], np.ndarray | None]) -> _Task | None:
    """Compute the log-likelihoods of an utterance; return None, with a warning, if they cannot be computed."""
    if graph is None:
        return None
    if not isinstance(matrix, Exception) and len(matrix) == 0:
        log.warning(f"Zero-length utterance: {key}")
        return None
    try:
        with within(f"utterance {key}"):
            likes = log_likes(key, matrix)
    except NumericError as error:
        log.warning(f"Skipping {error}")
        return None
    return None if likes is None else _Task(key, graph, likes)


class _Search:
    """Search of the graph, and determinization of the lattice.

    Threads may share one object if each utterance gets a decoder of its own (not ``keep_decoder``).
    """

    def __init__(self, options: Options, model: TransitionModel, keep_decoder: bool) -> None:
        self._options, self._model, self._keep_decoder = options, model, keep_decoder
        self._decoder_options = decoder_options(options)
        self._determinize_options = fields_from(options, PhoneDeterminizeOptions())
        self._kept: tuple[Graph, Decoder] | None = None

    def __call__(self, task: _Task | None) -> _Result | None:
        """Decode an utterance; return None if there is no task or, with a warning, if decoding fails."""
        if task is None:
            return None
        decoder = self._decoder(task.graph)
        decoded = self._decode(task.key, decoder, task.log_likes)
        if decoded is None:
            return None
        if not self._options.determinize_lattice:
            return _Result(task.key, decoded, decoded.lattice)
        compact = decoder.determinize(decoded, self._determinize_options)
        if not compact.complete:
            log.warning(f"Determinization finished earlier than the beam for utterance {task.key}")
        return _Result(task.key, decoded, compact.lattice)

    def _decoder(self, graph: Graph) -> Decoder:
        from nnet3py.decoding.lattice_decoder import Decoder

        if self._kept is not None and self._kept[0] is graph:
            return self._kept[1]
        decoder = Decoder(graph, self._model, self._decoder_options)
        if self._keep_decoder:
            self._kept = graph, decoder
        return decoder

    def _decode(self, key: str, decoder: Decoder, log_likes: np.ndarray) -> Decoded | None:
        try:
            with within(f"utterance {key}"):
                decoded = decoder.decode(log_likes)
        except NumericError as error:
            log.warning(f"Skipping {error}")
            return None
        if decoded is None:
            log.warning(f"Failed to decode utterance with id {key}")
            return None
        if not decoded.reached_final:
            if not self._options.allow_partial:
                log.warning(f"Not producing output for utterance {key} since no final-state reached and "
                            "--allow-partial=false.")
                return None
            log.warning(f"Outputting partial output for utterance {key} since no final-state reached")
        return decoded


class _Totals:
    """Counts and total log-likelihood of utterances."""

    def __init__(self) -> None:
        self.done = self.failed = self.frames = 0
        self.log_likelihood = 0.0

    def add(self, result: _Result) -> None:
        self.done += 1
        self.frames += len(result.decoded.alignment)
        self.log_likelihood += result.decoded.log_likelihood

    def report(self, seconds: float, frame_subsampling_factor: int) -> None:
        """Log the real-time factor, the numbers of utterances, and the log-likelihood per frame."""
        frames = max(self.frames, 1)
        log.log(f"Time taken {seconds:.6g}s: real-time factor assuming 100 frames/sec is "
                f"{seconds * 100.0 / (frames * frame_subsampling_factor):.6g}")
        log.log(f"Done {self.done} utterances, failed for {self.failed}")
        log.log(f"Overall log-likelihood per frame is {self.log_likelihood / frames:.6g} over {self.frames} frames.")


def decoder_inputs(graphs: str, matrices: str, model: TransitionModel,
                   read_graph: Callable[[TransitionModel], Graph] | None = None,
                   ) -> Iterator[tuple[str, Graph | None, Any]]:
    """Yield the key, graph and matrix of each utterance.

    Graph and matrix are None, after a warning, for an utterance of a table of graphs that has no matrix.
    """
    from nnet3py.decoding.decoding_graph import DecodingGraph
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.random_access import RandomAccessReader
    from nnet3py.io.specifiers import is_rspecifier
    from nnet3py.io.tables import SequentialReader
    from nnet3py.transducers.fst_text import FST

    if read_graph is not None or not is_rspecifier(graphs):
        with within(f"the graph {graphs}"):
            graph = read_graph(model) if read_graph is not None else DecodingGraph.read(graphs, model)
        with SequentialReader(matrices, FLOAT_MATRIX) as reader:
            for key, matrix in reader:
                yield key, graph, matrix
        return
    with SequentialReader(graphs, FST) as fsts, RandomAccessReader(matrices, FLOAT_MATRIX) as lookup:
        for key, fst in fsts:
            if key not in lookup:
                log.warning(f"Not decoding utterance {key} because no features available.")
                yield key, None, None
                continue
            with within(f"the graph of utterance {key}"):
                own_graph = DecodingGraph.of_fst(fst, model)
            yield key, own_graph, lookup[key]


def _report(result: _Result, words: SymbolTable | None) -> None:
    decoded = result.decoded
    frames = len(decoded.alignment)
    if words is not None:
        log.write_text(f"{result.key} {words.text(decoded.words)}\n")
    log.log(f"Log-like per frame for utterance {result.key} is {decoded.log_likelihood / max(frames, 1):.6g} over "
            f"{frames} frames.")


class _Outputs:
    """Output tables: lattices, and perhaps words and alignments. A table with an empty name is not written."""

    def __init__(self, wspecifiers: list[str], options: Options) -> None:
        import numpy as np

        from nnet3py.formats.holders import INT_VECTOR
        from nnet3py.io.tables import TableWriter
        from nnet3py.lattices.scaling import Scales
        from nnet3py.transducers.lattice import COMPACT_LATTICES, LATTICES

        lattices: Any = COMPACT_LATTICES if options.determinize_lattice else LATTICES
        self._unscale = Scales(1.0, float(np.float32(options.acoustic_scale))).undone()      # float32, as applied
        self._stack = ExitStack()
        self._writers: list[Any] = [None, None, None]
        with self._stack as opened:
            for place, name in enumerate(wspecifiers):
                if name:
                    self._writers[place] = opened.enter_context(TableWriter(name, INT_VECTOR if place else lattices))
            self._stack = opened.pop_all()

    def __enter__(self) -> _Outputs:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.__exit__(*exception)

    def write(self, result: _Result) -> None:
        """Write the lattice, words and alignment of an utterance to the tables that were named."""
        from nnet3py.lattices.scaling import scaled

        lattices, words, alignments = self._writers
        if lattices is not None:
            lattices.write(result.key, scaled(result.lattice, self._unscale))
        if words is not None:
            words.write(result.key, result.decoded.words)
        if alignments is not None:
            alignments.write(result.key, result.decoded.alignment)
