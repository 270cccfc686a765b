"""Damaged files for the fuzz test: good samples of every kind, mutations, and the judge of what reading them does.

Whatever a file, a config or a specifier holds, reading it returns or raises an Nnet3Error, soon, and without asking for
more memory than a few times the file.
"""
from __future__ import annotations

import contextlib
import functools
import io
import re
import signal
import struct
import tempfile
import tracemalloc
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from component_configs import CONFIGS
from hypothesis import strategies as st
from lattice_cases import LATTICE_DATA
from lattice_fuzzing import lattice_archives, read_words
from lattice_fuzzing import use as use_lattices
from paths import DATA
from wrong_input_cases import good_files

import nnet3py
from nnet3py.components.registry import COMPONENT_MODULES, component_class
from nnet3py.config_line import ConfigLine
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.formats.holders import FLOAT_MATRIX, GENERAL_MATRIX, INT_VECTOR, POSTERIOR
from nnet3py.index import NO_TIME
from nnet3py.io.object_files import read_object
from nnet3py.io.specifiers import parse_range, parse_rspecifier, parse_wspecifier, split_range
from nnet3py.io.tables import SequentialReader, TableWriter
from nnet3py.io.tokens import TokenWriter

SECONDS = 10                # of computing; reading a few kilobytes takes milliseconds
SECONDS_BY_THE_CLOCK = 120  # for what waits, and for a busy machine
TIMES_THE_FILE = 20         # text of two bytes may stand for a Python number of 32 and an array element of 8
SLACK = 4 << 20             # bytes that reading anything may take: buffers, a component's fixed state
CONFIG_MEMORY = 512 << 20   # bytes beyond what the process has when it reads a config, whose dimensions are requests

WEIGHTS = {"model": 12, "config": 5, "examples": 4, "matrices": 2, "cache": 2}    # kinds of many forms come more often
# kinds in which no "|" can start a command
NO_COMMANDS = ("model", "matrices", "examples", "FST", "cache", "graph", "ARPA", "const-ARPA", "windows")

# -- mutations -------------------------------------------------------------------------------------------------------

_INTEGERS = (0, 1, -1, 2, 3, 7, 100, 255, 1000, 65536, 100000, 2**24, 2**24 + 1, 2**30, 2**31 - 1, -2**31, NO_TIME + 1)
_REALS = (0.0, -1.0, 1.0, 1e-45, 1e38, 3.5e38, float("inf"), float("-inf"), float("nan"), 1e300)
_WORDS = (b"nan", b"inf", b"-inf", b"1e39", b"1e-50", b"--1", b"1.5.2", b"0x10", b"", b"\xff", b"999999999999999999999",
          b"true", b"T", b"[", b"]", b"\n", b" ", b",", b"<>", b"</", b"\0B", b"'", b'"', b"#", b"=", b"(", b")", b"))")
_TAG = re.compile(rb"</?\w+>")
_NUMBER = re.compile(rb"(?<![\w.])[-+]?\d[\d.]*(?:e[-+]?\d+)?")
_VALUE = re.compile(rb"(?<==)[^ \t\n=]+")
_SIZED_INTEGER = re.compile(rb"\x04(?=.{4})", re.DOTALL)
_SIZED_REAL = re.compile(rb"[\x04\x08](?=.{8})", re.DOTALL)


def _pick(items: Any, number: int) -> Any:
    return items[number % len(items)]


def _replace(data: bytes, pattern: re.Pattern[bytes], number: int, new: Callable[[re.Match[bytes]], bytes]) -> bytes:
    """``data`` with one match of the pattern replaced; unchanged if there is none."""
    found = list(pattern.finditer(data))
    if not found:
        return data
    match = _pick(found, number)
    return data[:match.start()] + new(match) + data[match.end():]


def _place(data: bytes, number: int) -> int:
    return number % (len(data) + 1)


def _overwrite(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new):]


def flip_bit(data: bytes, a: int, b: int) -> bytes:
    """One bit changes."""
    at = _place(data, a)
    return _overwrite(data, at, bytes(byte ^ (1 << b % 8) for byte in data[at:at + 1]))


def set_byte(data: bytes, a: int, b: int) -> bytes:
    """One byte becomes another."""
    return _overwrite(data, _place(data, a), bytes([b % 256]))


def delete(data: bytes, a: int, b: int) -> bytes:
    """Some bytes disappear: one, a few, or many."""
    at = _place(data, a)
    return data[:at] + data[at + _pick((1, 2, 4, 5, 30, 200), b):]


def repeat(data: bytes, a: int, b: int) -> bytes:
    """Some bytes stand twice."""
    at = _place(data, a)
    return data[:at] + data[at:at + _pick((1, 2, 4, 5, 30, 200), b)] + data[at:]


def truncate(data: bytes, a: int, b: int) -> bytes:
    """The end is missing."""
    return data[:_place(data, a)]


def move(data: bytes, a: int, b: int) -> bytes:
    """A piece stands elsewhere."""
    at, to = _place(data, a), _place(data, b)
    piece = data[at:at + 20]
    rest = data[:at] + data[at + 20:]
    return rest[:to] + piece + rest[to:]


def change_integer(data: bytes, a: int, b: int) -> bytes:
    """A binary integer gets an awkward value."""
    found = list(_SIZED_INTEGER.finditer(data))
    at = _pick(found, a).end() if found else _place(data, a)
    return _overwrite(data, at, struct.pack("<i", _pick(_INTEGERS, b)))


def change_real(data: bytes, a: int, b: int) -> bytes:
    """A binary number gets an awkward value, infinity or NaN."""
    found = list(_SIZED_REAL.finditer(data))
    at = _pick(found, a).end() if found else _place(data, a)
    value = _pick(_REALS, b)
    wide = data[at - 1:at] == b"\10" or abs(value) > 3.4e38
    return _overwrite(data, at, struct.pack("<d" if wide else "<f", value))


def change_number_text(data: bytes, a: int, b: int) -> bytes:
    """A number in text becomes another, or no number."""
    choices = [*(str(value).encode() for value in _INTEGERS + _REALS), *_WORDS]
    return _replace(data, _NUMBER, a, lambda match: _pick(choices, b))


def change_value(data: bytes, a: int, b: int) -> bytes:
    """The value of a ``key=value`` becomes another one's, or rubbish."""
    choices = [*_VALUE.findall(data), *_WORDS]
    return _replace(data, _VALUE, a, lambda match: _pick(choices, b))


def change_tag(data: bytes, a: int, b: int) -> bytes:
    """A tag becomes another of the file, disappears, or stands twice."""
    choices = _TAG.findall(data)
    return _replace(data, _TAG, a, lambda match: _pick([*choices, b"", match[0] + b" " + match[0], b"<Unknown>"], b))


def insert(data: bytes, a: int, b: int) -> bytes:
    """A word stands where none was."""
    at = _place(data, a)
    return data[:at] + _pick(_WORDS, b) + data[at:]


MUTATIONS = (flip_bit, set_byte, delete, repeat, truncate, move, change_integer, change_real, change_number_text,
             change_value, change_tag, insert)


# -- samples ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Good content of one kind, and what reads it; ``read`` is given the bytes and a file that holds them.

    ``use`` does something with what was read, which may take more memory than reading.
    """

    kind: str
    name: str
    data: bytes
    read: Callable[[bytes, Path], Any]
    use: Callable[[Any], None] | None = None


def _read_model(data: bytes, path: Path) -> Any:
    from nnet3py.network.model_file import read_nnet

    return read_nnet(str(path))


def _use_model(nnet: Any) -> None:
    from nnet3py.model_info import info

    with contextlib.suppress(Nnet3Error):    # a network whose context depends on t, say, can be written all the same
        info(nnet)
    for binary in (True, False):
        nnet.write_to(TokenWriter(io.BytesIO(), binary))


def _read_acoustic_model(data: bytes, path: Path) -> None:
    from nnet3py.acoustic_model import read_model

    model = read_model(str(path))
    model.write_to(TokenWriter(io.BytesIO(), True))


def _read_config(data: bytes, path: Path) -> None:
    from nnet3py.network.nnet import Nnet

    nnet = Nnet.from_config(data.decode("utf-8", "surrogateescape"), path=str(path))
    nnet.config_lines(include_dims=True)


def _apply_edits(data: bytes, path: Path) -> None:
    from nnet3py.network.edits import apply_edits

    apply_edits(_edited_network().copy(), data.decode("utf-8", "surrogateescape"))


@functools.cache
def _edited_network() -> Any:
    from nnet3py.network.nnet import Nnet

    return Nnet.from_config(good_files()["config"].decode())


def _read_specifier(data: bytes, path: Path) -> None:
    for parse in (parse_rspecifier, parse_wspecifier, split_range, lambda text: parse_range(text, 2)):
        with contextlib.suppress(Nnet3Error):
            parse(data.decode("utf-8", "surrogateescape"))


def _table(holder: Any, form: str = "ark") -> Callable[[bytes, Path], None]:
    def read(data: bytes, path: Path) -> None:
        with SequentialReader(f"{form}:{path}", holder) as reader:
            for _, value in reader:
                holder.write(TokenWriter(io.BytesIO(), True), value)

    return read


def _object(module: str, name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, path: Path) -> None:
        from importlib import import_module

        value = read_object(str(path), getattr(import_module(module), name).read)
        if hasattr(value, "write"):
            value.write(TokenWriter(io.BytesIO(), True))

    return read


def _read_fst(data: bytes, path: Path) -> None:
    from nnet3py.transducers.fst_text import read_fst, write_fst

    fst = read_object(str(path), read_fst)
    write_fst(TokenWriter(io.BytesIO(), True), fst)


def _read_graph(data: bytes, path: Path) -> None:
    """Read a graph as the programs on graphs do, and do to it what they do, but nothing that may never end."""
    import warnings

    from nnet3py.cli.graph_files import read_graph
    from nnet3py.fst import arcs
    from nnet3py.fst.info import info_text
    from nnet3py.fst.local_epsilons import without_local_epsilons
    from nnet3py.fst.push import push_special
    from nnet3py.fst.text import TextForm, text_of_fst
    from nnet3py.graphs.context import expand_context

    fst = read_graph(str(path))
    info_text(fst)
    list(text_of_fst(fst, TextForm()))
    for change in (arcs.arc_sorted, arcs.in_top_order, arcs.reversed_fst, arcs.closure, arcs.sums_of_states,
                   without_local_epsilons, push_special, lambda one: arcs.union(one, one), _determinized,
                   lambda one: expand_context(one, 2, 1, [31, 32, 33, 34], keep_outputs=True), _with_self_loops):
        with contextlib.suppress(Nnet3Error), warnings.catch_warnings():
            change(fst)


def _determinized(fst: Any) -> None:
    from nnet3py.fst.openfst import compose, determinize_star, minimize_encoded, to_openfst

    if fst.num_arcs:
        graph = to_openfst(fst)
        determinize_star(graph, use_log=True, max_states=200)
        minimize_encoded(graph)
        compose(fst, fst)


@functools.cache
def _small_model() -> Any:
    from nnet3py.hmm.transition_model import TransitionModel

    return read_object(str(DATA / "graphs" / "trans.mdl"), TransitionModel.read)


def _with_self_loops(fst: Any) -> None:
    from nnet3py.graphs.self_loops import add_self_loops

    add_self_loops(fst, _small_model())


def _compile_fst(data: bytes, path: Path) -> None:
    from nnet3py.fst.symbols import read_symbols
    from nnet3py.fst.text import TextForm, fst_of_text, text_of_fst

    words = read_symbols(DATA / "graphs" / "words.txt")
    for form in (TextForm(), TextForm(inputs=words), TextForm(acceptor=True)):
        with contextlib.suppress(Nnet3Error):
            list(text_of_fst(fst_of_text(data, form), form))


def _read_symbols(data: bytes, path: Path) -> None:
    from nnet3py.fst.symbols import read_symbols, symbols_text

    symbols_text(read_symbols(path))


def _read_windows(data: bytes, path: Path) -> None:
    from nnet3py.graphs.hmms import hmm_transducer
    from nnet3py.graphs.windows import read_windows
    from nnet3py.hmm.tree import ContextDependency

    hmm_transducer(read_windows(str(path)), read_object(str(DATA / "graphs" / "tree"), ContextDependency.read),
                   _small_model())


def _read_arpa(data: bytes, path: Path) -> None:
    from nnet3py.fst.arpa import Warner, WordIds, read_arpa
    from nnet3py.fst.arpa_graph import Sentence, arpa_graph

    ids = {b"<eps>": 0, b"<s>": 1, b"</s>": 2}
    model = read_arpa(str(path), WordIds(ids, grow=True), Warner(0))
    for backoff in (0, 3):
        arpa_graph(model, Sentence(1, 2, backoff), Warner(0))


def _read_arpa_of_numbers(data: bytes, path: Path) -> None:
    from nnet3py.fst.arpa import Warner, WordIds, read_arpa
    from nnet3py.fst.const_arpa import build_const_arpa

    build_const_arpa(read_arpa(str(path), WordIds(None), Warner(0)), 16, 17)


def _read_const_arpa(data: bytes, path: Path) -> None:
    from nnet3py.fst.const_arpa import ConstArpa

    model = ConstArpa.read(path)
    for word in range(-1, 20):
        model.log_prob([16, word, word], word)
        model.state([3, word])


def _graph_samples() -> list[Sample]:
    folder = DATA / "graphs"
    found = [Sample("graph", name, (folder / name).read_bytes(), _read_graph)
             for name in ("LG.fst", "HCLG.fst", "G-symbols.fst", "Ha.fst")]
    for kind, name, read in (("FST lines", "L_disambig.txt", _compile_fst), ("symbols", "words.txt", _read_symbols),
                             ("windows", "ilabels", _read_windows), ("ARPA", "bigram.arpa", _read_arpa),
                             ("ARPA", "trigram.int.arpa", _read_arpa_of_numbers),
                             ("const-ARPA", "G.carpa", _read_const_arpa)):
        found.append(Sample(kind, name, (folder / name).read_bytes(), read))
    return found


CACHED_CASES = ("tdnn-component", "dropout-test-mode", "statistics-pooling")    # with several kinds of row tables


def _read_cache(case: str) -> Callable[[bytes, Path], None]:
    """What a damaged cache lets pass is run, with rows of ones: a command must not reach beyond its matrices."""
    def read(data: bytes, path: Path) -> None:
        compiler, request = _compiler(case)
        compiler.read_cache(str(path))
        computation = compiler.compile(request)
        computer = nnet3py.Computer(computation, compiler.nnet, update=compiler.nnet.as_gradient())
        derivs = [spec for spec in request.outputs if spec.has_deriv]
        for specs, dim_of in ((request.inputs, compiler.nnet.input_dim), (derivs, compiler.nnet.output_dim)):
            for spec in specs:
                computer.accept_input(spec.name, np.ones((len(spec.indexes), dim_of(spec.name)), dtype=np.float32))
            computer.run()

    return read


def _compiler(case: str) -> Any:
    """A compiler with nothing in its cache, and the request of a case."""
    from case_runs import read_request

    from nnet3py.compiler.cache import CachingCompiler

    folder = DATA / "cases" / case
    return CachingCompiler(nnet3py.read_nnet(str(folder / "nnet.raw"))), read_request(folder / "request.txt")[0]


def _cache(case: str, folder: Path) -> bytes:
    compiler, request = _compiler(case)
    compiler.compile(request)
    compiler.write_cache(str(folder / "cache"))
    return (folder / "cache").read_bytes()


def _both_forms(kind: str, path: Path, holder: Any) -> list[Sample]:
    """The archive as it is, and as text."""
    with tempfile.TemporaryDirectory() as folder, SequentialReader(f"ark:{path}", holder) as reader:
        with TableWriter(f"ark,t:{folder}/text", holder) as writer:
            for key, value in reader:
                writer.write(key, value)
        text = Path(folder, "text").read_bytes()
    return [Sample(kind, name, data, _table(holder)) for name, data in (
        (f"{path.name} binary", path.read_bytes()), (f"{path.name} text", text))]


_EDITS = b"""set-learning-rate name=a* learning-rate=0.01
set-learning-rate-factor name=o learning-rate-factor=0.5
rename-node old-name=bn new-name=b2
remove-output-nodes name=extra*
set-dropout-proportion name=* proportion=0.5
apply-svd name=a bottleneck-dim=2 shrinkage-threshold=0.9
reduce-rank name=o rank=3
convert-to-fixed-affine name=o
remove-orphans
"""
_SPECIFIERS = ("ark,s,cs,t:a/b.ark", "scp,p:feats.scp", "ark,scp:a.ark,b.scp", "ark:gzip -c x |", "scp,bg,o:x[0:5]",
               "ark,t,f:-", "[0:5,3:7]", "x.ark:1234[1:2]", "none")


def every_type_config() -> Iterator[tuple[str, str]]:
    """(name, config) for each form of each component type: a network of that one component."""
    for type_name in sorted(set(CONFIGS) & set(COMPONENT_MODULES)):
        for number, line in enumerate(CONFIGS[type_name]):
            component = component_class(type_name).from_config(ConfigLine(line), np.random.default_rng(0))
            yield f"{type_name}{number}", (f"input-node name=input dim={component.input_dim}\n"
                                           f"component name=c type={type_name} {line}\n"
                                           "component-node name=c component=c input=input\n"
                                           "output-node name=output input=c\n")


@functools.cache
def samples() -> tuple[Sample, ...]:
    """Every kind of file, in binary and in text where it has both."""
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE
    from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE
    from nnet3py.egs.example import EXAMPLE
    from nnet3py.egs.supervision import SUPERVISION
    from nnet3py.network.nnet import Nnet

    files = good_files()
    found = [Sample("config", "config", files["config"], _read_config), Sample("edits", "edits", _EDITS, _apply_edits)]
    found += [Sample("specifier", text, text.encode(), _read_specifier) for text in _SPECIFIERS]
    for name, config in every_type_config():
        found.append(Sample("config", name, config.encode(), _read_config))
        for binary in (True, False):
            stream = io.BytesIO(b"\0B" if binary else b"")
            stream.seek(0, io.SEEK_END)
            Nnet.from_config(config).write_to(TokenWriter(stream, binary))
            found.append(Sample("model", f"{name} {'binary' if binary else 'text'}", stream.getvalue(), _read_model,
                                _use_model))
    found += [Sample("model", name, files[name], _read_model, _use_model) for name in ("raw", "raw.txt")]
    found.append(Sample("acoustic model", "mdl", files["mdl"], _read_acoustic_model))
    found += [Sample("matrices", name, files[name], _table(GENERAL_MATRIX)) for name in ("feats", "cfeats")]
    found.append(Sample("matrices", "feats.txt", files["feats.txt"], _table(FLOAT_MATRIX)))
    found += [Sample("examples", name, files[name], _table(EXAMPLE)) for name in ("egs", "uegs", "megs", "egs.txt")]
    found.append(Sample("labels", "ali", files["ali"], _table(INT_VECTOR)))
    found.append(Sample("posteriors", "post", files["post"], _table(POSTERIOR)))
    found.append(Sample("tree", "tree", files["tree"], _object("nnet3py.hmm.tree", "ContextDependency")))
    found.append(Sample("topology", "topo", files["topo"], _object("nnet3py.hmm.topology", "HmmTopology")))
    found.append(Sample("transition model", "trans.mdl", files["trans.mdl"],
                        _object("nnet3py.hmm.transition_model", "TransitionModel")))
    found += _both_forms("examples", DATA / "egs" / "chain.ark", CHAIN_EXAMPLE)
    found += _both_forms("examples", DATA / "egs" / "sup.ark", SUPERVISION)
    found += _both_forms("examples", DATA / "egs" / "discriminative.ark", DISCRIMINATIVE_EXAMPLE)
    found.append(Sample("FST", "den.fst", (DATA / "io" / "den.fst").read_bytes(), _read_fst))
    found.append(Sample("LDA statistics", "lda.acc", (DATA / "io" / "lda.acc").read_bytes(),
                        _object("nnet3py.formats.lda_stats", "LdaStats")))
    with tempfile.TemporaryDirectory() as folder:
        found += [Sample("cache", case, _cache(case, Path(folder)), _read_cache(case)) for case in CACHED_CASES]
    script = "".join(f"u{i} {DATA / 'io' / name}{part}\n" for i, (name, part) in enumerate(
        [("feats.ark", ":5"), ("feats.ark", ":5[0:3]"), ("absent.ark", "")])).encode()
    found.append(Sample("script", "scp", script, _table(GENERAL_MATRIX, "scp")))
    for name, data, read in lattice_archives():
        found.append(Sample("lattices", name, data, read, use_lattices))
    found += [Sample("words' phones", name, (LATTICE_DATA / "data" / name).read_bytes(), read_words)
              for name in ("word_boundary.int", "align_lexicon.int")]
    return tuple(found + _graph_samples())


def _strange_integer() -> st.SearchStrategy[int]:
    return st.integers(0, 2**32 - 1)


def damaged_samples(only: Collection[str] = ()) -> st.SearchStrategy[tuple[Sample, bytes]]:
    """A sample and its content after one to four mutations. Commands are never made of it: no ``|`` in names.

    ``only``: of these kinds; empty: of all.
    """
    steps = st.lists(st.tuples(st.sampled_from(MUTATIONS), _strange_integer(), _strange_integer()),
                     min_size=1, max_size=4)
    return st.tuples(_weighted_samples(only), steps).map(lambda drawn: (drawn[0], mutated(*drawn)))


def _weighted_samples(only: Collection[str]) -> st.SearchStrategy[Sample]:
    """A sample: first its kind, then which of that kind."""
    by_kind: dict[str, list[Sample]] = {}
    for sample in samples():
        if not only or sample.kind in only:
            by_kind.setdefault(sample.kind, []).append(sample)
    kinds = [kind for kind in by_kind for _ in range(WEIGHTS.get(kind, 1))]
    return st.sampled_from(kinds).flatmap(lambda kind: st.sampled_from(by_kind[kind]))


def mutated(sample: Sample, steps: list[tuple[Callable[[bytes, int, int], bytes], int, int]]) -> bytes:
    """The sample's content after these mutations."""
    data = sample.data
    for mutation, a, b in steps:
        data = mutation(data, a, b)
    return data if sample.kind in NO_COMMANDS else data.replace(b"|", b"!")


# -- the judge -------------------------------------------------------------------------------------------------------


class Hang(BaseException):
    """Reading took longer than it may."""


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    """Raises Hang in the block after too many seconds; where there are no alarms (Windows), no limit."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: Any) -> None:
        raise Hang

    alarms = ((signal.SIGPROF, signal.ITIMER_PROF, SECONDS), (signal.SIGALRM, signal.ITIMER_REAL, SECONDS_BY_THE_CLOCK))
    before = [signal.signal(number, stop) for number, _, _ in alarms]
    for _, timer, seconds in alarms:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(alarms, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


@contextlib.contextmanager
def memory_limit(size: int) -> Iterator[None]:
    """Requests of memory that would take ``size`` bytes more than now fail in the block (on Linux)."""
    try:
        import resource

        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def judge(sample: Sample, data: bytes, folder: Path, trace_memory: bool = True) -> Nnet3Error | None:
    """Read the content: returns the error that was rightly raised, or None; AssertionError for anything else.

    Without ``trace_memory`` it is quicker, and memory is only limited.
    """
    path = folder / "fuzzed"
    path.write_bytes(data)
    error: Nnet3Error | None = None
    peak = 0
    if trace_memory:
        tracemalloc.start()
    try:
        with time_limit(), memory_limit(CONFIG_MEMORY):
            value = sample.read(data, path)
            peak = tracemalloc.get_traced_memory()[1]
            if sample.use is not None:
                sample.use(value)
    except Nnet3Error as found:
        error = found
    except Hang:
        raise AssertionError(f"{sample.name}: reading took longer than {SECONDS} s") from None
    except Exception as found:
        raise AssertionError(f"{sample.name}: {type(found).__name__} instead of an Nnet3Error: {found}") from found
    finally:
        peak = peak or tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if sample.kind not in ("config", "edits"):
        allowed = TIMES_THE_FILE * max(len(data), len(sample.data)) + SLACK
        if peak > allowed:      # zeros that nobody has written to are counted, although they take no memory yet
            peak = min(peak, touched_memory(sample, data, path))
        assert peak <= allowed, f"{sample.name}: {peak} bytes of memory for a file of {len(data)}"
    if error is not None:
        assert error.message.strip(), f"{sample.name}: an error without a message"
        if isinstance(error, FormatError) and sample.kind == "model":
            assert error.path == str(path) and error.offset is not None, f"{sample.name}: no place in: {error}"
    return error


def touched_memory(sample: Sample, data: bytes, path: Path) -> int:
    """The most memory that reading really takes, in bytes; where the system does not tell (not Linux), as good as 0."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        before = _resident_peak()
    except OSError:
        return 0
    with contextlib.suppress(Nnet3Error):
        sample.read(data, path)
    return _resident_peak() - before


def _resident_peak() -> int:
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def warm_up(folder: Path) -> None:
    """Read every sample as it is: good ones are accepted, and what is imported on first use does not count later."""
    for sample in samples():
        if sample.kind != "script":
            found = judge_untimed(sample, folder)
            assert found is None or sample.kind == "specifier", f"{sample.name}: {found}"


def judge_untimed(sample: Sample, folder: Path) -> Nnet3Error | None:
    """Read a sample as it is, with no limits."""
    path = folder / "fuzzed"
    path.write_bytes(sample.data)
    try:
        sample.read(sample.data, path)
    except Nnet3Error as error:
        return error
    return None


@contextlib.contextmanager
def fuzz_folder() -> Iterator[Path]:
    """A folder for the damaged files, in memory where there is such a place."""
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield Path(folder)
