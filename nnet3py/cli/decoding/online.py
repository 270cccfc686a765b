"""Decoding of sound in chunks, as in real time, and a server for sound.

online2-wav-nnet3-latgen-faster, online2-wav-nnet3-latgen-grammar and online2-tcp-nnet3-decode-faster.
"""
from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.decoding.decode_table import LATTICES_HELP
from nnet3py.cli.decoding.online_options import (
    DECODING,
    OnlineDecoding,
    log_endpoint,
    words_text,
)
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import OptionError, Options, declared, option
from nnet3py.errors import Nnet3Error, within
from nnet3py.recognition.options import CHUNK_LENGTH

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.decoding.lattice_decoder import Graph
    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.formats.foreign_files import Wave
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.recognition.pipeline import SpeakerState
    from nnet3py.recognition.stream_decoder import StreamDecoder


_OPTIONS = (
    *DECODING,
    *declared([CHUNK_LENGTH._replace(help="Seconds of sound in a chunk; 0 or less: the whole utterance")]),
    option("word-symbol-table", str, "", "words.txt, for showing words on standard error"),
    option("do-endpointing", bool, False, "Stop at the end of the utterance, which the --endpoint options define; "
           "later sound is not read"),
    option("online", bool, True, "false: i-vectors of whole utterances, and the whole sound as one chunk"),
)


@kaldi_command("online2-wav-nnet3-latgen-faster", "Decoding",
               "Decode sound in chunks, as if it arrived in real time.", f"""
Decode sound in chunks, as if it arrived in real time, and write lattices: features, i-vectors, the network's output and
the search proceed chunk by chunk. Adaptation to a speaker (i-vector statistics, CMVN) is kept from one utterance to the
next. This simulates online2-tcp-nnet3-decode-faster.
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
    return _decode(args, options)


@kaldi_command("online2-wav-nnet3-latgen-grammar", "Decoding",
               "Decode sound in chunks, as in real time, with a grammar in parts.", f"""
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
    """Decoder of one utterance after the other, with counts and times for the log."""

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
        """Decode an utterance: return the compact lattice, with unscaled acoustic costs, and the speaker's state."""
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
        """Decode the sound chunk by chunk, to its end or to the first endpoint."""
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
        """Log how much the last utterance's i-vector improved the objective, and the i-vector's length."""
        if self._ivectors is not None and log.verbose() >= 2:
            log.vlog(2, "By the end of the utterance, objf change/frame from estimating iVector (vs. default) was "
                        f"{self._ivectors.objective_change():.6g} and iVector length was "
                        f"{self._ivectors.length():.6g}")


class _Timing:
    """Times of utterances whose sound arrives in simulated real time.

    Where decoding is ahead of the sound, the time until the sound arrives is added, without waiting.
    """

    def __init__(self) -> None:
        self.audio = self.taken = self.waited = 0.0
        self.count = 0
        self.longest, self.longest_key = -float("inf"), ""
        self._latency, self._length = 0.0, 0.0

    def utterance(self, key: str) -> _Timer:
        """Return a context manager that measures the time of an utterance."""
        return _Timer(self, key)

    def add(self, key: str, audio: float, taken: float, waited: float) -> None:
        """Add an utterance, in seconds: length of the sound, time from its start to its result, simulated waiting."""
        self.audio, self.taken, self.waited = self.audio + audio, self.taken + taken, self.waited + waited
        self.count += 1
        self._latency, self._length = taken - audio, audio
        if self._latency > self.longest:
            self.longest, self.longest_key = self._latency, key

    def show_latency(self, key: str) -> None:
        """Log the latency of the last utterance."""
        log.vlog(2, f"Latency {self._latency:.6g} seconds out of {self._length:.6g}, for utterance {key}")

    def log(self, online: bool) -> None:
        """Log the timing of all utterances: the delay of results if ``online``, else the real-time factor."""
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
    """Context manager that measures the time of an utterance."""

    def __init__(self, timing: _Timing, key: str) -> None:
        self._timing, self._key = timing, key
        self._audio = self._waited = 0.0
        self._start = perf_counter()

    def wait_until(self, seconds: float) -> None:
        """Wait, in simulated time, until ``seconds`` of the sound have arrived."""
        self._audio = seconds
        self._waited += max(0.0, seconds - (perf_counter() - self._start) - self._waited)

    def __enter__(self) -> _Timer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            taken = perf_counter() - self._start + self._waited
            self._timing.add(self._key, self._audio, taken, self._waited)


_LONGEST_TIMEOUT = 86400.0          # seconds


@kaldi_command("online2-tcp-nnet3-decode-faster", "Decoding", "Serve recognition of sound at a TCP port.", """
Recognize the sound that clients send to a TCP port, one client after the other.

A client sends only samples (16 bits, signed, little endian, mono, rate --samp-freq), and shuts down its side of the
connection at the end. The server answers lines of text: partial results, which end with \\r, and the final result of
each segment of speech, which ends with \\n. Anybody who can reach the port can use the server.

Usage: online2-tcp-nnet3-decode-faster [options] <nnet3-in> <fst-in> <word-symbol-table>
e.g.:
 online2-tcp-nnet3-decode-faster --config=conf/online.conf --port-num=5050 --acoustic-scale=1.0 \
--frame-subsampling-factor=3 final.mdl graph/HCLG.fst graph/words.txt
 and, to try it: sox a.wav -t raw -c 1 -b 16 -r 16000 -e signed-integer - | nc -N localhost 5050
See also: online2-wav-nnet3-latgen-faster
""", arguments=(3, 3), options=[
    *DECODING,
    option("samp-freq", float, 16000.0, "Sampling rate of the sound that clients send, in Hz", least=1,
           below=inf),
    *declared([CHUNK_LENGTH._replace(limits={"above": 0, "below": inf})]),
    option("output-period", float, 1.0, "Seconds between partial results", below=inf),
    option("read-timeout", int, 3, "Seconds without data after which the sound is taken to have ended (-1: no limit)"),
    option("port-num", int, 5050, "Port to listen on (0: any free port, which is logged)", least=0, most=65535),
    option("produce-time", bool, False, "Put the times of begin and end, in seconds, in front of results"),
])
def serve(args: list[str], options: Options) -> int:
    from nnet3py.decoding.symbols import SymbolTable

    if options.chunk_length * options.samp_freq < 1:
        raise OptionError(f"--samp-freq={options.samp_freq:g} --chunk-length={options.chunk_length:g}: expected chunks "
                          "(in seconds) of one sample or more")
    if not options["endpoint.silence-phones"]:
        raise OptionError("--endpoint.silence-phones must be given",
                          "give the numbers of silence phones, by which the end of speech is detected")
    decoding = OnlineDecoding(options, args[0], args[1])
    words = SymbolTable.read(args[2])
    decoding.prepare()
    with closing(_listen(options.port_num)) as server:
        log.log(f"TcpServer: Listening on port: {server.getsockname()[1]}")
        while True:
            log.log("Waiting for client...")
            connection, address = server.accept()
            log.log(f"Accepted connection from: {address[0]}")
            with closing(connection):
                try:
                    _Conversation(connection, decoding, words, options).run()
                except OSError as error:
                    log.warning(f"Lost the connection to {address[0]}: {error}")
                except Nnet3Error as error:
                    log.warning(f"Stopped serving {address[0]}: {error}")


def _listen(port: int) -> socket.socket:
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("", port))
        server.listen(1)
    except OSError as error:
        server.close()
        raise Nnet3Error(f"Cannot bind to port: {port} ({error.strerror}; is the port in use?)",
                         "give another port by --port-num") from None
    return server


class _Conversation:
    """Connection to a client that sends sound and receives text."""

    def __init__(self, connection: socket.socket, decoding: OnlineDecoding, words: SymbolTable,
                 options: Options) -> None:
        self._connection, self._words, self._options = connection, words, options
        timeout = float(options.read_timeout)
        connection.settimeout(None if timeout < 0 else min(max(timeout, 0.001), _LONGEST_TIMEOUT))
        self._chunk = int(options.chunk_length * options.samp_freq)
        self._period = int(options.samp_freq * options.output_period)
        self._decoder: StreamDecoder = decoding.begin()[1]

    def run(self) -> None:
        """Receive sound until it ends, and send partial and final results."""
        decoder, num_samples, next_answer = self._decoder, 0, self._period
        while (samples := self._read()) is not None:
            decoder.accept_waveform(samples, self._options.samp_freq)
            num_samples += self._chunk
            if num_samples > next_answer:
                if decoder.num_frames_decoded:
                    self._answer(partial=True)
                next_answer += self._period
            rule = decoder.activated_rule()
            if rule is not None:
                log_endpoint(rule)
                decoder.finalize()
                self._answer()
                decoder.begin_segment()
        decoder.finish()
        if decoder.num_frames_decoded:
            decoder.finalize()
            self._answer()
        else:
            self._connection.sendall(b"\n")

    def _read(self) -> np.ndarray | None:
        """Receive a chunk of samples, float32 (samples,); the last may be shorter. None after the end of the sound."""
        import numpy as np

        parts, missing = [], 2 * self._chunk
        while missing:
            try:
                part = self._connection.recv(missing)
            except TimeoutError:
                log.warning("The client sent no data within --read-timeout: the sound is taken to have ended")
                break
            if not part:
                break
            parts.append(part)
            missing -= len(part)
        data = b"".join(parts)
        if len(data) < 2:
            log.warning("Stream over...")
            return None
        return np.frombuffer(data, dtype="<i2", count=len(data) // 2).astype(np.float32)

    def _answer(self, partial: bool = False) -> None:
        """Send the words of the current segment, as a partial or the final result."""
        decoder = self._decoder
        path = decoder.best_path(use_final=not partial)
        text = "" if path is None else words_text(self._words, path.words)
        if self._options.produce_time:
            shift, begin = decoder.frame_shift, decoder.frame_offset
            text = f"{begin * shift:.2f} {(begin + decoder.num_frames_decoded) * shift:.2f} {text}"
        log.vlog(1, f"{'Temporary transcript' if partial else 'Segment'}: {text}")
        self._connection.sendall(f"{text}{chr(13) if partial else chr(10)}".encode())
