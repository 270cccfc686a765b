"""online2-tcp-nnet3-decode-faster: a server that takes sound from one client after the other and answers words."""
from __future__ import annotations

import socket
from contextlib import closing
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.decoding.online_options import DECODING, OnlineDecoding, log_endpoint, words_text
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import OptionError, Options, declared, option
from nnet3py.errors import Nnet3Error
from nnet3py.recognition.options import CHUNK_LENGTH

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.recognition.stream_decoder import StreamDecoder

_LONGEST_TIMEOUT = 86400.0          # seconds


@kaldi_command("online2-tcp-nnet3-decode-faster", group="Decoding",
               help="Serve words for the sound that clients send to a port.", usage="""
Recognize the sound that clients send to a port, one client after the other.

A client sends samples, 16 bits each, signed, little endian, mono, of the rate --samp-freq, and nothing else, and shuts
down its side of the connection when it is done. It gets lines of text: what has been understood so far, which ends with
\\r, and what was said in a segment of speech, with \\n. Anybody who can reach the port can use the server.

Usage: online2-tcp-nnet3-decode-faster [options] <nnet3-in> <fst-in> <word-symbol-table>
e.g.:
 online2-tcp-nnet3-decode-faster --config=conf/online.conf --port-num=5050 --acoustic-scale=1.0 \
--frame-subsampling-factor=3 final.mdl graph/HCLG.fst graph/words.txt
 and, to try it: sox a.wav -t raw -c 1 -b 16 -r 16000 -e signed-integer - | nc -N localhost 5050
See also: online2-wav-nnet3-latgen-faster
""", arguments=(3, 3), options=[
    *DECODING,
    option("samp-freq", float, 16000.0, "Samples a second that clients send"),
    *declared([CHUNK_LENGTH]),
    option("output-period", float, 1.0, "Seconds from one answer to the next while someone speaks"),
    option("read-timeout", int, 3, "Seconds after which a client that sends nothing is done (-1: never)"),
    option("port-num", int, 5050, "Port to listen on (0: any that is free; the log says which)"),
    option("produce-time", bool, False, "Put the times of begin and end, in seconds, in front of answers"),
])
def serve(args: list[str], options: Options) -> int:
    """Serve until the process is ended."""
    from nnet3py.decoding.symbols import SymbolTable

    if not 0 <= options.port_num <= 65535:
        raise OptionError(f"--port-num={options.port_num}: expected a number from 0 to 65535")
    if not options.samp_freq >= 1 or not options.chunk_length * options.samp_freq >= 1:
        raise OptionError("--samp-freq and --chunk-length must make chunks of one sample or more")
    if not options["endpoint.silence-phones"]:
        raise OptionError("--endpoint.silence-phones must be given", "without it the end of speech is not found")
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
        raise Nnet3Error(f"Cannot bind to port: {port} ({error.strerror}; is it taken?)",
                         "give another one as --port-num") from None
    return server


class _Conversation:
    """The exchange with one client."""

    def __init__(self, connection: socket.socket, decoding: OnlineDecoding, words: SymbolTable,
                 options: Options) -> None:
        self._connection, self._words, self._options = connection, words, options
        timeout = float(options.read_timeout)
        connection.settimeout(None if timeout < 0 else min(max(timeout, 0.001), _LONGEST_TIMEOUT))
        self._chunk = int(options.chunk_length * options.samp_freq)
        self._period = int(options.samp_freq * options.output_period)
        self._decoder: StreamDecoder = decoding.begin()[1]

    def run(self) -> None:
        """Read sound and answer, to the end."""
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
        """float32 (samples,), a chunk, or fewer samples if no more come; None if there are none."""
        import numpy as np

        parts, missing = [], 2 * self._chunk
        while missing:
            try:
                part = self._connection.recv(missing)
            except TimeoutError:
                log.warning("No sound came for a while: taken for the end")
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
        """Send the words of this segment: those so far, or the last ones."""
        decoder = self._decoder
        path = decoder.best_path(use_final=not partial)
        text = "" if path is None else words_text(self._words, path.words)
        if self._options.produce_time:
            shift, begin = decoder.frame_shift, decoder.frame_offset
            text = f"{begin * shift:.2f} {(begin + decoder.num_frames_decoded) * shift:.2f} {text}"
        log.vlog(1, f"{'Temporary transcript' if partial else 'Segment'}: {text}")
        self._connection.sendall(f"{text}{chr(13) if partial else chr(10)}".encode())
