"""Decoding of sound as it arrives, and the server on a TCP port."""
from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
from io_samples import read_table
from online_cases import DATA, KEYS, ONLINE, PACKAGE, base_features, dialogue

from nnet3py.cli.decoding.online import latgen, latgen_grammar, serve
from nnet3py.cli.feat.online_feats import compute_online_feats, dump_features
from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR
from nnet3py.graphs.grammar_fst import GrammarFst, Nonterminals
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object
from nnet3py.io.tables import SequentialReader
from nnet3py.transducers.fst_text import read_fst_file
from nnet3py.transducers.lattice import COMPACT_LATTICES

PLACES = [str(PACKAGE / "am" / "final.mdl"), str(PACKAGE / "graph" / "HCLG.fst"), "ark:spk2utt", "scp:wav.scp",
          "ark:lat"]
WORDS_FILE = str(PACKAGE / "graph" / "words.txt")
WORDS = f"--word-symbol-table={WORDS_FILE}"


@pytest.fixture
def options(here):
    """The options of the small recognizer; the working folder has its inputs."""
    return write_inputs(here)


def write_inputs(folder):
    """Write wav.scp, spk2utt and the options files that the returned options name."""
    ivector = PACKAGE / "ivector"
    files = {"lda-matrix": "final.mat", "global-cmvn-stats": "global_cmvn.stats", "cmvn-config": "online_cmvn.conf",
             "splice-config": "splice.conf", "diag-ubm": "final.dubm", "ivector-extractor": "final.ie"}
    (folder / "ivector.conf").write_text("".join(f"--{name}={ivector / file}\n" for name, file in files.items()))
    (folder / "wav.scp").write_text("".join(f"{key} {DATA / 'wav' / key}.wav\n" for key in KEYS))
    (folder / "spk2utt").write_text(f"spk1 {' '.join(KEYS)}\n")
    return [f"--mfcc-config={PACKAGE / 'conf' / 'mfcc.conf'}", "--ivector-extraction-config=ivector.conf",
            "--frame-subsampling-factor=3", "--acoustic-scale=1.0", "--beam=12", "--lattice-beam=4", "--min-active=10",
            "--endpoint.silence-phones=1"]


def test_words_and_log(options, capfd):
    assert latgen.execute([*options, WORDS, "--verbose=2", *PLACES]) == 0
    text = capfd.readouterr().err
    assert "\nutt1 five two nine five \n" in text and "\nutt2 seven zero three \n" in text
    for line in ("Decoded utterance utt3", "Decoded 3 utterances, 0 with errors.",
                 r"Overall likelihood per frame was 14\.79\d* per frame over 168 frames\.",
                 r"Likelihood per frame for utterance utt1 is 15\.53\d* over 59 frames, = -0\.93\d*,-16\.47\d*",
                 r"Latency \S+ seconds out of 1\.79056, for utterance utt1",
                 r"By the end of the utterance, objf change/frame from estimating iVector \(vs\. default\) was "
                 r"3\.73\d* and iVector length was 3\.158\d*", r"Timing stats: real-time factor was 1\.\d+",
                 r"Average delay was \S+ seconds\.", r"Percentage of time spent idling was \S+",
                 r"Longest delay was \S+ seconds for utterance 'utt\d'"):
        assert re.search(rf"LOG.*\) {line}", text), line
    assert [key for key, _ in read_table("ark:lat", COMPACT_LATTICES).items()] == list(KEYS)


def test_a_grammar_in_parts(options, capfd):
    """Of which the whole graph is the only one here: the same words, and the same likelihood."""
    model = read_object(PLACES[0], TransitionModel.read)
    GrammarFst.of(Nonterminals(len(model.topology.phones) + 5), read_fst_file(PLACES[1]), {}).write("HCLG.gra")
    assert latgen_grammar.execute([*options, WORDS, PLACES[0], "HCLG.gra", *PLACES[2:]]) == 0
    text = capfd.readouterr().err
    assert "\nutt1 five two nine five \n" in text and "\nutt2 seven zero three \n" in text
    assert re.search(r"Overall likelihood per frame was 14\.79\d* per frame over 168 frames\.", text)


def test_not_online(options, capfd):
    assert latgen.execute([*options, "--online=false", *PLACES]) == 0
    text = capfd.readouterr().err
    assert re.search(r"real-time factor for offline decoding was \S+ = \S+ seconds  / 5\.08975 seconds\.", text)
    assert re.search(r"Overall likelihood per frame was 14\.77\d* per frame over 168 frames", text)


def test_endpoints_stop_reading(options, capfd):
    assert latgen.execute([*options, "--verbose=2", "--do-endpointing=true", "--chunk-length=0.1",
                           "--endpoint.rule2.min-trailing-silence=0.09", "--frames-per-chunk=15", *PLACES]) == 0
    text = capfd.readouterr().err
    assert "Endpointing rule rule2 activated: true,0.12,0,1.5\n" in text
    assert "over 145 frames." in text


def test_costs_are_unscaled(options, tmp_path):
    found = []
    for scale in ("1.0", "0.5"):
        assert latgen.execute([*options, f"--acoustic-scale={scale}", "--chunk-length=0", *PLACES]) == 0
        with SequentialReader("ark:lat", COMPACT_LATTICES) as lattices:
            found.append({key: lattice.weights[:, 1].min() for key, lattice in lattices})
    assert found[0]["utt2"] == pytest.approx(found[1]["utt2"], rel=0.2)


def write_wave(path, num_samples):
    samples = b"\0\0" * num_samples
    path.write_bytes(b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt " + struct.pack(
        "<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16) + b"data" + struct.pack("<I", len(samples)) + samples)


def test_missing_and_short_sound(options, tmp_path, capfd):
    (tmp_path / "spk2utt").write_text("spk1 utt1 nobody\n")
    assert latgen.execute([*options, *PLACES]) == 0
    text = capfd.readouterr().err
    assert "Did not find audio for utterance nobody" in text and "Decoded 1 utterances, 1 with errors." in text
    (tmp_path / "spk2utt").write_text("spk1 nobody\n")
    assert latgen.execute([*options, *PLACES]) == 1
    write_wave(tmp_path / "short.wav", 100)
    (tmp_path / "wav.scp").write_text(f"short {tmp_path / 'short.wav'}\n")
    (tmp_path / "spk2utt").write_text("spk1 short\n")
    assert latgen.execute([*options, *PLACES]) == 255
    assert "You cannot get a lattice if you decoded no frames." in capfd.readouterr().err


@pytest.mark.parametrize(("given", "message"), [
    (["--feature-type=plp"], "dimension 13, the statistics for i-vectors 40"),
    (["--add-pitch=true"], "43"),
    (["--add-pitch=true", "--online-pitch-config=ivector.conf"], "ivector.conf"),
    (["--cmvn-config=ivector.conf"], "--global-cmvn-stats option is required"),
    (["--ivector-extraction-config="], "the extractor makes none"),
    (["--mfcc-config="], "dimension 13, the statistics for i-vectors 40"),
    (["--determinize-lattice=false"], "only determinized lattices"),
    (["--endpoint.silence-phones=1:x"], "--endpoint.silence-phones=1:x"),
    (["--endpoint.silence-phones=0"], "expected silence phones above 0"),
    (["--endpoint.rule6.min-trailing-silence=1"], "Invalid option"),
    (["--ivector-extraction-config=nothing.conf"], "Cannot open config file: nothing.conf"),
    (["--beam=0"], "--beam"),
])
def test_what_cannot_be(options, capfd, given, message):
    assert latgen.execute([*options, *given, *PLACES]) == 255
    text = capfd.readouterr().err
    assert message in text and "Traceback" not in text


def test_usage(capfd):
    assert latgen.execute(PLACES[:4]) == 1
    assert "Usage: online2-wav-nnet3-latgen-faster" in capfd.readouterr().err


def test_another_rate(options, tmp_path, capfd):
    (tmp_path / "mfcc.conf").write_text((PACKAGE / "conf" / "mfcc.conf").read_text() + "--sample-frequency=8000\n")
    assert latgen.execute([*options, "--mfcc-config=mfcc.conf", *PLACES]) == 255
    assert "--allow-downsample=true resamples it" in capfd.readouterr().err


def test_idle_options(options, capfd):
    assert latgen.execute([*options, "--fbank-config=ivector.conf", *PLACES]) == 0
    assert "--fbank-config option has no effect since feature type is set to mfcc." in capfd.readouterr().err


PATIENCE = 60              # seconds


class Server:
    """The server in a process of its own."""

    def __init__(self, folder, *more: str) -> None:
        self.log = folder / "log"
        launch = "from nnet3py.cli.decoding.online import serve; serve.main()"
        options = [*write_inputs(folder), "--endpoint.rule2.min-trailing-silence=0.2", "--output-period=0.5",
                   "--ivector-silence-weighting.silence-phones=1", "--ivector-silence-weighting.silence-weight=0.001",
                   "--port-num=0", *more]
        with open(self.log, "wb") as stream:
            self.process = subprocess.Popen([sys.executable, "-c", launch, *options, *PLACES[:2], WORDS_FILE],
                                            cwd=folder, stderr=stream)
        self.port = int(self.wait_for(r"Listening on port: (\d+)")[1])

    def wait_for(self, pattern: str) -> re.Match[str]:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            found = re.search(pattern, self.log.read_text())
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"no '{pattern}' in {self.log.read_text()}")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def stop(self) -> None:
        os.kill(self.process.pid, signal.SIGTERM)
        self.process.wait(PATIENCE)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for the tests of clients, so that each finds what the one before left."""
    made = Server(tmp_path_factory.mktemp("server"), "--produce-time=true", "--read-timeout=1")
    yield made
    assert made.process.poll() is None, made.log.read_text()
    made.stop()
    assert "Traceback" not in made.log.read_text()


def samples() -> bytes:
    return dialogue().astype("<i2").tobytes()


def answer(client: socket.socket) -> bytes:
    parts = []
    while part := client.recv(4096):
        parts.append(part)
    return b"".join(parts)


def talk(server: Server, data: bytes) -> bytes:
    with server.connect() as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return answer(client)


def test_kaldis_bytes(server):
    assert talk(server, samples()) == (ONLINE / "tcp-times.bytes").read_bytes()


def vanish(server, data):
    client = server.connect()
    client.sendall(data)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()                     # the connection is reset


@pytest.mark.parametrize("length", [0, 1, 99, 60000, 200000])
def test_clients_that_vanish(server, length):
    vanish(server, samples()[:length])
    assert talk(server, samples()[:50000]).startswith(b"0.00 0.48 five two \r")


def test_a_client_that_stops_sending(server):
    with server.connect() as client:
        client.sendall(samples()[:60001])          # an odd byte is not a sample
        assert re.fullmatch(rb"0.00 0.48 five two \r.*five \n1.68 1.8\d \n", answer(client))
    server.wait_for("taken to have ended")


def test_no_sound(server):
    assert talk(server, b"") == b"\n"
    assert talk(server, b"abc") == b"\n"


def test_a_port_that_is_taken(options, capfd):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert serve.execute([*options, f"--port-num={port}", *PLACES[:2], WORDS_FILE]) == 255
    assert f"Cannot bind to port: {port}" in capfd.readouterr().err


@pytest.mark.parametrize(("given", "message"), [
    (["--chunk-length=1e-5"], "one sample or more"), (["--endpoint.silence-phones="], "must be given")])
def test_what_cannot_be_served(options, capfd, given, message):
    assert serve.execute([*options, *given, *PLACES[:2], WORDS_FILE]) == 255
    assert message in capfd.readouterr().err


SAME = 1e-4                # of the largest value
ARGUMENTS = ["ark:spk2utt", "scp:wav.scp", "ark:feats"]


def read(specifier, holder):
    return read_table(specifier, holder)


def test_as_kaldi(options, capfd):
    assert dump_features.execute([*options[:2], *ARGUMENTS]) == 0
    assert "Processed 3 utterances, 0 with errors; 503 frames in total." in capfd.readouterr().err
    found, expected = read("ark:feats", FLOAT_MATRIX), read(f"ark:{ONLINE / 'features.ark'}", FLOAT_MATRIX)
    assert list(found) == list(expected) == list(KEYS)
    for key, matrix in expected.items():
        np.testing.assert_allclose(found[key], matrix, atol=SAME * np.abs(matrix).max())
        np.testing.assert_allclose(found[key][:, 40:], matrix[:, 40:], atol=SAME * np.abs(matrix[:, 40:]).max())


def test_all_at_once(options, capfd):
    assert compute_online_feats.execute([*options[:2], "scp:wav.scp", "ark:ivectors", "ark:feats"]) == 0
    text = capfd.readouterr().err
    assert "Processing Utterance utt2" in text and "Processed 3 utterances with 0 failures." in text
    features, ivectors = read("ark:feats", FLOAT_MATRIX), read("ark:ivectors", FLOAT_VECTOR)
    for key in KEYS:
        np.testing.assert_array_equal(features[key], base_features(key))
        assert ivectors[key].shape == (12,)
    # Of the first utterance, for which nothing is carried over: the estimate at its end, by way of other steps.
    expected = read(f"ark:{ONLINE / 'features.ark'}", FLOAT_MATRIX)["utt1"][-1, 40:]
    np.testing.assert_allclose(ivectors["utt1"], expected, atol=SAME * np.abs(expected).max())


def test_without_ivectors(options, tmp_path):
    assert dump_features.execute([options[0], *ARGUMENTS]) == 0
    np.testing.assert_array_equal(read("ark:feats", FLOAT_MATRIX)["utt1"], base_features("utt1"))
    assert compute_online_feats.execute([options[0], "scp:wav.scp", "ark:ivectors", "ark:feats"]) == 0
    assert (tmp_path / "ivectors").read_bytes() == b""


@pytest.mark.parametrize(("config", "expected"), [(2, "12\n"), (1, "0\n")])
def test_dimension_of_ivectors(options, capfd, config, expected):
    assert dump_features.execute([*options[:config], "--print-ivector-dim=true"]) == 0
    assert capfd.readouterr().out == expected


@pytest.mark.parametrize("words", [[], ARGUMENTS[:2], ["--print-ivector-dim=true", *ARGUMENTS]])
def test_usage_of_features(capfd, words):
    assert dump_features.execute(words) == 1
    assert "Usage: online2-wav-dump-features" in capfd.readouterr().err


def test_features_of_missing_and_short_sound(options, tmp_path, capfd):
    (tmp_path / "spk2utt").write_text("spk1 utt1 nobody\n")
    assert dump_features.execute([options[0], *ARGUMENTS]) == 0
    assert "Processed 1 utterances, 1 with errors; " in capfd.readouterr().err

    write_wave(tmp_path / "short.wav", 100)
    (tmp_path / "wav.scp").write_text("short short.wav\n")
    assert compute_online_feats.execute([*options[:2], "scp:wav.scp", "ark:ivectors", "ark:feats"]) == 1
    text = capfd.readouterr().err
    assert "Failed to compute features for utterance short" in text and "with 1 failures" in text
