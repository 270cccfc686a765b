"""What the commands that decode utterances share: options, the search, what is written and logged."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

from nnet3py import log
from nnet3py.cli.options import INT_MAX, Options, option
from nnet3py.cli.utterances import IvectorSource, check_ivector_options, compute_options
from nnet3py.errors import Nnet3Error, NumericError, within

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.acoustic_model import AcousticModel
    from nnet3py.decoding.decoder import Decoded, Decoder, DecoderOptions
    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.io.transition_model import TransitionModel

DECODER = (
    option("beam", float, 16.0, "Paths whose cost is larger than the best one's by more are given up"),
    option("max-active", int, INT_MAX, "States kept per frame; only with --lattices=false"),
    option("min-active", int, 200, "States kept per frame whatever the beam; only with --lattices=false"),
    option("lattice-beam", float, 10.0,
           "How much worse than the best path what a lattice keeps may be; only with --lattices=true"),
    option("prune-interval", int, 25,
           "Frames between prunings of a lattice that is being made; only with --lattices=true"),
    option("beam-delta", float, 0.5, "How the beam is widened where max-active cut it; only with --lattices=false"),
    option("hash-ratio", float, 2.0, "Room per state in the search's table; only with --lattices=false"),
    *(option(f"memory-pool-{kind}-block-size", int, 256, "No effect: it is about Kaldi's memory")
      for kind in ("tokens", "links")),
    option("determinize-lattice", bool, True, "No effect: lattices stay state-level, as Kaldi's with false"),
    *(option(name, type_, default, "No effect: it is about determinizing lattices") for name, type_, default in (
        ("delta", float, 0.000976562), ("max-mem", int, 50000000), ("phone-determinize", bool, True),
        ("word-determinize", bool, True), ("minimize", bool, False))),
    option("lattices", bool, True, "Write lattices; false: search for the best path only, and write lattices of it"),
    option("allow-partial", bool, False, "Take the best path, too, where no final state was reached"),
    option("word-symbol-table", str, "", "words.txt, for showing words on standard error"),
)

LATTICES_HELP = """
Lattices are state-level ones, as Kaldi's with --determinize-lattice=false; Kaldi's lattice-determinize-pruned makes
compact lattices of them. Their acoustic costs are unscaled. Of the options of the search, --beam always has effect;
--lattice-beam and --prune-interval where lattices are made; --max-active, --min-active, --beam-delta and --hash-ratio
with --lattices=false, where what is written is the best path; those of determinizing (--determinize-lattice, --delta,
--max-mem, --minimize, --phone-determinize, --word-determinize) are accepted and have none.
"""


class Computes(Protocol):
    """What computes a network's output for an utterance."""

    def compute(self, feats: np.ndarray, ivector: np.ndarray | None = None, online_ivectors: np.ndarray | None = None,
                online_ivector_period: int = 0) -> np.ndarray:
        """The output, float32 (frames, output dim), with priors subtracted and the acoustic scale."""


def utterance_computer(model: AcousticModel, options: Options, device: str) -> Computes:
    """What computes utterances a chunk at a time, as the ``SIMPLE`` options say."""
    from nnet3py.network.collapse import prepare_for_test
    from nnet3py.runtime.compute import UtteranceComputer

    return UtteranceComputer(prepare_for_test(model.nnet), compute_options(options), model.priors, device)


def decode_features(args: list[str], options: Options,
                    make_computer: Callable[[AcousticModel, Options, str], Computes] = utterance_computer) -> int:
    """Decode what an acoustic model makes of a table of features; return the exit status.

    ``make_computer(model, options, device)`` gives what computes the network.
    """
    from nnet3py.acoustic_model import read_model
    from nnet3py.cli.compute_setup import set_up

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

        inputs = decoder_inputs(args[1], args[2], model.transition_model, decoder_options(options))
        return decode_table(args[3:], options, inputs, log_likes, options.frame_subsampling_factor)


def decoder_options(options: Options) -> DecoderOptions:
    """What the ``DECODER`` options ask for."""
    from nnet3py.decoding.decoder import DecoderOptions

    return DecoderOptions(beam=options.beam, max_active=options.max_active,
                          min_active=min(options.min_active, options.max_active), beam_delta=options.beam_delta,
                          hash_ratio=options.hash_ratio, lattice_beam=options.lattice_beam,
                          prune_interval=options.prune_interval, lattices=options.lattices)


def decode_table(wspecifiers: list[str], options: Options, inputs: Iterable[tuple[str, Decoder | None, Any]],
                 log_likes: Callable[[str, Any], np.ndarray | None], frame_subsampling_factor: int) -> int:
    """Decode utterances, and write what is found; return the exit status.

    Parameters
    ----------
    wspecifiers : of lattices, and perhaps words and alignments
    inputs : keys, decoders and what ``log_likes`` takes; no decoder for an utterance that failed already
    log_likes : ``log_likes(key, matrix)`` gives log-likelihoods with the acoustic scale, or None, having warned
    """
    import time

    from nnet3py.decoding.symbols import SymbolTable

    start = time.perf_counter()
    words = SymbolTable.read(options.word_symbol_table) if options.word_symbol_table else None
    total = _Totals()
    with _Outputs(wspecifiers, options.acoustic_scale) as outputs:
        for key, decoder, matrix in inputs:
            found = None if decoder is None else _decode_one(key, decoder, matrix, log_likes, options)
            if found is None:
                total.failed += 1
                continue
            _report(key, found, words)
            outputs.write(key, found)
            total.add(found)
    total.report(time.perf_counter() - start, frame_subsampling_factor)
    return 0 if total.done else 1


class _Totals:
    """Counts over utterances."""

    def __init__(self) -> None:
        self.done = self.failed = self.frames = 0
        self.log_likelihood = 0.0

    def add(self, found: Decoded) -> None:
        self.done += 1
        self.frames += len(found.alignment)
        self.log_likelihood += found.log_likelihood

    def report(self, seconds: float, frame_subsampling_factor: int) -> None:
        frames = max(self.frames, 1)
        log.log(f"Time taken {seconds:.6g}s: real-time factor assuming 100 frames/sec is "
                f"{seconds * 100.0 / (frames * frame_subsampling_factor):.6g}")
        log.log(f"Done {self.done} utterances, failed for {self.failed}")
        log.log(f"Overall log-likelihood per frame is {self.log_likelihood / frames:.6g} over {self.frames} frames.")


def decoder_inputs(graphs: str, matrices: str, model: TransitionModel, options: DecoderOptions,
                   ) -> Iterator[tuple[str, Decoder | None, Any]]:
    """Utterances with their decoders; None, with a warning, for a graph whose utterance is missing."""
    from nnet3py.decoding.decoder import Decoder
    from nnet3py.decoding.graph import read_fst_file
    from nnet3py.io.fst_text import FST
    from nnet3py.io.holders import FLOAT_MATRIX
    from nnet3py.io.random_access import RandomAccessReader
    from nnet3py.io.specifiers import is_rspecifier
    from nnet3py.io.tables import SequentialReader

    if not is_rspecifier(graphs):
        decoder = Decoder(read_fst_file(graphs), model, options)
        with SequentialReader(matrices, FLOAT_MATRIX) as reader:
            for key, matrix in reader:
                yield key, decoder, matrix
        return
    with SequentialReader(graphs, FST) as fsts, RandomAccessReader(matrices, FLOAT_MATRIX) as lookup:
        for key, fst in fsts:
            if key not in lookup:
                log.warning(f"Not decoding utterance {key} because no features available.")
                yield key, None, None
                continue
            with within(f"the graph of utterance {key}"):
                decoder = Decoder(fst, model, options)
            yield key, decoder, lookup[key]


def _decode_one(key: str, decoder: Decoder, matrix: Any, log_likes: Callable[[str, Any], np.ndarray | None],
                options: Options) -> Decoded | None:
    """The best path of one utterance, or None, with a warning."""
    if not isinstance(matrix, Exception) and len(matrix) == 0:
        log.warning(f"Zero-length utterance: {key}")
        return None
    try:
        with within(f"utterance {key}"):
            likes = log_likes(key, matrix)
            found = None if likes is None else decoder.decode(likes)
    except NumericError as error:
        log.warning(f"Skipping {error}")
        return None
    if likes is None:
        return None
    if found is None:
        log.warning(f"Failed to decode utterance with id {key}")
        return None
    if not found.reached_final:
        if not options.allow_partial:
            log.warning(f"Not producing output for utterance {key} since no final-state reached and "
                        "--allow-partial=false.")
            return None
        log.warning(f"Outputting partial output for utterance {key} since no final-state reached")
    return found


def _report(key: str, found: Decoded, words: SymbolTable | None) -> None:
    frames = len(found.alignment)
    if words is not None:
        log.write_text(f"{key} {words.text(found.words)}\n")
    log.log(f"Log-like per frame for utterance {key} is {found.log_likelihood / max(frames, 1):.6g} over {frames} "
            "frames.")


class _Outputs:
    """The tables that are written: lattices, and perhaps words and alignments. An empty name writes nothing."""

    def __init__(self, wspecifiers: list[str], acoustic_scale: float) -> None:
        from nnet3py.decoding.lattices import LATTICES
        from nnet3py.io.holders import INT_VECTOR
        from nnet3py.io.tables import TableWriter

        if acoustic_scale == 0.0:
            raise Nnet3Error("--acoustic-scale must not be 0")
        self._unscale = 1.0 / acoustic_scale
        self._stack = ExitStack()
        self._writers: list[Any] = [None, None, None]
        with self._stack as opened:
            for place, name in enumerate(wspecifiers):
                if name:
                    holder = INT_VECTOR if place else LATTICES
                    self._writers[place] = opened.enter_context(TableWriter(name, holder))
            self._stack = opened.pop_all()

    def __enter__(self) -> _Outputs:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.__exit__(*exception)

    def write(self, key: str, found: Decoded) -> None:
        from nnet3py.decoding.lattices import scaled

        values = (lambda: scaled(found.lattice, 1.0, self._unscale), lambda: found.words, lambda: found.alignment)
        for writer, value in zip(self._writers, values, strict=True):
            if writer is not None:
                writer.write(key, value())
