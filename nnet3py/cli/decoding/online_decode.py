"""online2-wav-nnet3-latgen-faster and -grammar: sound is recognized as if it were arriving."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from time import perf_counter
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.decoding.decode_table import LATTICES_HELP
from nnet3py.cli.decoding.online_options import DECODING, OnlineDecoding, log_endpoint, words_text
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared, option
from nnet3py.errors import within
from nnet3py.recognition.options import CHUNK_LENGTH

if TYPE_CHECKING:
    from nnet3py.decoding.lattice_decoder import Graph
    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.formats.foreign_files import Wave
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.recognition.pipeline import SpeakerState
    from nnet3py.recognition.stream_decoder import StreamDecoder

_OPTIONS = (
    *DECODING,
    *declared([CHUNK_LENGTH._replace(help="Seconds of sound that arrive at a time; 0 or less: all of it")]),
    option("word-symbol-table", str, "", "words.txt, for showing words on standard error"),
    option("do-endpointing", bool, False, "Stop where the --endpoint options say that an utterance is over; what comes "
           "after is not read"),
    option("online", bool, True, "false: i-vectors of whole utterances, and all the sound at once"),
)


@kaldi_command("online2-wav-nnet3-latgen-faster", group="Decoding",
               help="Decode sound as if it were arriving: lattices.", usage=f"""
Recognize sound in chunks, as if it were arriving: features, i-vectors, the network and the search go on with each of
them. What is learned about a speaker is kept from one utterance to the next. Simulates what
online2-tcp-nnet3-decode-faster does.
{LATTICES_HELP}
Usage: online2-wav-nnet3-latgen-faster [options] <nnet3-in> <fst-in> <spk2utt-rspecifier> <wav-rspecifier> \
<lattice-wspecifier>
e.g.:
 online2-wav-nnet3-latgen-faster --config=conf/online.conf --acoustic-scale=1.0 --frame-subsampling-factor=3 \
final.mdl graph/HCLG.fst ark:spk2utt scp:wav.scp ark:lat.ark
Give "ark:echo utt1 utt1|" as spk2utt if there is one utterance only.
See also: nnet3-latgen-faster-looped, online2-wav-dump-features
""", arguments=(5, 5), options=_OPTIONS)
def latgen(args: list[str], options: Options) -> int:
    """Decode; 1 if no utterance succeeded."""
    return _decode(args, options)


@kaldi_command("online2-wav-nnet3-latgen-grammar", group="Decoding",
               help="Decode sound as if it were arriving, with a grammar in parts.", usage=f"""
The same as online2-wav-nnet3-latgen-faster, with a grammar in parts that make-grammar-fst wrote.
{LATTICES_HELP}
Usage: online2-wav-nnet3-latgen-grammar [options] <nnet3-in> <grammar-fst-in> <spk2utt-rspecifier> <wav-rspecifier> \
<lattice-wspecifier>
e.g.:
 online2-wav-nnet3-latgen-grammar --config=conf/online.conf --acoustic-scale=1.0 --frame-subsampling-factor=3 \
final.mdl HCLG.gra ark:spk2utt scp:wav.scp ark:lat.ark
See also: nnet3-latgen-grammar, make-grammar-fst
""", arguments=(5, 5), options=_OPTIONS)
def latgen_grammar(args: list[str], options: Options) -> int:
    """Decode; 1 if no utterance succeeded."""
    from nnet3py.decoding.composed_graphs import GrammarGraph

    return _decode(args, options, GrammarGraph.read)


def _decode(args: list[str], options: Options,
            read_graph: Callable[[str, TransitionModel], Graph] | None = None) -> int:
    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.formats.foreign_files import WAVE
    from nnet3py.formats.holders import TOKEN_VECTOR
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    model, graph, spk2utt, waves, lattices = args
    decoding = OnlineDecoding(options, model, graph, options.online, read_graph)
    words = SymbolTable.read(options.word_symbol_table) if options.word_symbol_table else None
    utterances = _Utterances(decoding, options, words)
    errors = 0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(lattices, COMPACT_LATTICES))
        sounds = stack.enter_context(RandomAccessReader(waves, WAVE))
        for _, keys in stack.enter_context(SequentialReader(spk2utt, TOKEN_VECTOR)):
            state = None
            for key in keys:
                if key not in sounds:
                    log.warning(f"Did not find audio for utterance {key}")
                    errors += 1
                    continue
                with within(f"utterance {key}"):
                    lattice, state = utterances.decode(key, sounds[key], state)
                writer.write(key, lattice)
                log.log(f"Decoded utterance {key}")
                utterances.log_ivector()
    utterances.timing.log(options.online)
    log.log(f"Decoded {utterances.done} utterances, {errors} with errors.")
    log.log(f"Overall likelihood per frame was {utterances.log_likelihood / max(utterances.frames, 1):.6g} per frame "
            f"over {utterances.frames} frames.")
    return 0 if utterances.done else 1


class _Utterances:
    """Decodes utterances one after the other, and counts."""

    def __init__(self, decoding: OnlineDecoding, options: Options, words: SymbolTable | None) -> None:
        from nnet3py.lattices.scaling import Scales

        self._decoding, self._words = decoding, words
        self._chunk_length = options.chunk_length if options.online else 0.0
        self._do_endpointing = options.do_endpointing
        self._unscale = Scales(1.0, options.acoustic_scale).undone()
        self._ivectors: Any = None
        self.timing = _Timing()
        self.done = self.frames = 0
        self.log_likelihood = 0.0

    def decode(self, key: str, wave: Wave, state: SpeakerState | None) -> tuple[Any, SpeakerState]:
        """The compact lattice, with unscaled acoustic costs, and what is then known of the speaker."""
        from nnet3py.lattices.scaling import scaled

        decoder = self._run(key, wave, state)
        decoder.finalize()
        compact = decoder.lattice(use_final=True, options=self._decoding.determinize)
        if not compact.complete:
            log.warning(f"Determinization finished earlier than the beam for utterance {key}")
        self._count(key, decoder)
        self._ivectors = decoder.pipeline.ivectors
        self.timing.show_latency(key)
        self.done += 1
        return scaled(compact.lattice, self._unscale), decoder.adaptation_state()

    def _run(self, key: str, wave: Wave, state: SpeakerState | None) -> StreamDecoder:
        """Have the sound arrive, chunk after chunk; to its end, or until the utterance is over."""
        samples = wave.samples[0]
        chunk = max(1, int(wave.rate * self._chunk_length)) if self._chunk_length > 0 else max(1, len(samples))
        pipeline, decoder = self._decoding.begin(state)
        with self.timing.utterance(key) as timer:
            for begin in range(0, max(1, len(samples)), chunk):
                end = min(begin + chunk, len(samples))
                timer.wait_until(end / wave.rate)
                pipeline.accept_waveform(samples[begin:end], wave.rate)
                if end == len(samples):
                    pipeline.finish()
                decoder.advance()
                rule = decoder.activated_rule() if self._do_endpointing else None
                if rule is not None:
                    log_endpoint(rule)
                    break
        return decoder

    def _count(self, key: str, decoder: StreamDecoder) -> None:
        path = decoder.best_path(use_final=True)
        if path is None:
            return
        graph, acoustic = path.weights.sum(axis=0, dtype=float)
        graph += path.final_cost
        frames = decoder.num_frames_decoded
        self.frames += frames
        self.log_likelihood -= float(graph + acoustic)
        log.vlog(2, f"Likelihood per frame for utterance {key} is {-(graph + acoustic) / frames:.6g} over {frames} "
                    f"frames, = {-graph / frames:.6g},{acoustic / frames:.6g}")
        if self._words is not None:
            log.write_text(f"{key} {words_text(self._words, path.words)}\n")

    def log_ivector(self) -> None:
        """Log what the i-vector of the last utterance gained."""
        if self._ivectors is not None and log.verbose() >= 2:
            log.vlog(2, "By the end of the utterance, objf change/frame from estimating iVector (vs. default) was "
                        f"{self._ivectors.objective_change():.6g} and iVector length was "
                        f"{self._ivectors.length():.6g}")


class _Timing:
    """How long utterances would take with sound that arrives: computing faster than that means waiting."""

    def __init__(self) -> None:
        self.audio = self.taken = self.waited = 0.0
        self.count = 0
        self.longest, self.longest_key = -float("inf"), ""
        self._latency, self._length = 0.0, 0.0

    def utterance(self, key: str) -> _Timer:
        """What times an utterance, as a context."""
        return _Timer(self, key)

    def add(self, key: str, audio: float, taken: float, waited: float) -> None:
        """Count an utterance; seconds."""
        self.audio, self.taken, self.waited = self.audio + audio, self.taken + taken, self.waited + waited
        self.count += 1
        self._latency, self._length = taken - audio, audio
        if self._latency > self.longest:
            self.longest, self.longest_key = self._latency, key

    def show_latency(self, key: str) -> None:
        """Say how late the last utterance was."""
        log.vlog(2, f"Latency {self._latency:.6g} seconds out of {self._length:.6g}, for utterance {key}")

    def log(self, online: bool) -> None:
        """Write the averages."""
        audio = self.audio or 1.0
        if not online:
            computing = self.taken - self.waited
            log.log(f"Timing stats: real-time factor for offline decoding was {computing / audio:.6g} = "
                    f"{computing:.6g} seconds  / {self.audio:.6g} seconds.")
            return
        if not self.count:
            return
        log.log(f"Timing stats: real-time factor was {self.taken / audio:.6g} (note: this cannot be less than one.)")
        log.log(f"Average delay was {(self.taken - self.audio) / self.count:.6g} seconds.")
        if self.waited:
            log.log(f"Percentage of time spent idling was {100 * self.waited / audio:.6g}")
        log.log(f"Longest delay was {self.longest:.6g} seconds for utterance '{self.longest_key}'")


class _Timer:
    """Times one utterance."""

    def __init__(self, timing: _Timing, key: str) -> None:
        self._timing, self._key = timing, key
        self._audio = self._waited = 0.0
        self._start = perf_counter()

    def wait_until(self, seconds: float) -> None:
        """The sound to here has arrived: if that is later than now, count the time as waited for."""
        self._audio = seconds
        self._waited += max(0.0, seconds - (perf_counter() - self._start) - self._waited)

    def __enter__(self) -> _Timer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            taken = perf_counter() - self._start + self._waited
            self._timing.add(self._key, self._audio, taken, self._waited)
