"""Model folders: their layout, files and options, what they lack, and where published models are found.

Layouts: ``vosk`` (``am/final.mdl``, ``graph/``, ``conf/``, ``ivector/``), ``flat`` (an old one of vosk's: all in one
folder), ``online`` (as prepare_online_decoding.sh leaves it, with ``conf/online.conf``) and ``kaldi`` (``final.mdl``
with a graph folder, ``conf/`` and ``ivector_extractor/``). Only small files of options are read; nothing is downloaded.
"""
from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from glob import escape, glob
from pathlib import Path
from typing import Any

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.network.model_place import (
    MODEL_CONFS,
    ONLINE_CONF,
    is_old_published,
    is_published,
    subsampling_of_folder,
)
from nnet3py.option_fields import OptionValue, check_limits
from nnet3py.option_file import checked_value, find_file, read_conf, text_of
from nnet3py.recognition import options as tables
from nnet3py.rnnlm.folder import NETWORK, find_rnnlm_files
from nnet3py.transducers.fst import has_output_symbols

Stamp = frozenset[tuple[str, int, int, int]]

DEMO = "demo_model"            # a folder beside this file
VOSK, FLAT, ONLINE, KALDI = "vosk", "flat", "online", "kaldi"
LAYOUTS = {VOSK: "a model as published for vosk", FLAT: "a model as published for old versions of vosk",
           ONLINE: "a model made by prepare_online_decoding.sh", KALDI: "a model as Kaldi's training leaves it"}

# Defaults where a folder has no options of its own: those of vosk, of vosk for its old models, and of the script
# steps/online/nnet3/decode.sh.
_VOSK_OPTIONS = {"chunk-length": 0.2}
_FLAT_OPTIONS = {**_VOSK_OPTIONS, "min-active": 200, "max-active": 7000, "beam": 13.0, "lattice-beam": 6.0,
                 "acoustic-scale": 1.0,
                 "endpoint.silence-phones": "1:2:3:4:5:6:7:8:9:10",
                 "endpoint.rule2.min-trailing-silence": 0.5, "endpoint.rule3.min-trailing-silence": 1.0,
                 "endpoint.rule4.min-trailing-silence": 2.0}
_SCRIPT_OPTIONS = {"max-active": 7000, "beam": 15.0, "lattice-beam": 6.0, "frames-per-chunk": 20}
_DEFAULTS: dict[str, dict[str, Any]] = {
    VOSK: _VOSK_OPTIONS, FLAT: _FLAT_OPTIONS, ONLINE: _SCRIPT_OPTIONS, KALDI: _SCRIPT_OPTIONS}
_VOSK_SILENCE_WEIGHT = 0.001
_MAX_COUNT = 100.0            # option max-count of i-vectors in published models
_FEATURE_CONFS = {"mfcc": ("conf/mfcc.conf", "conf/mfcc_hires.conf", "mfcc.conf"),
                  "fbank": ("conf/fbank.conf", "fbank.conf"), "plp": ("conf/plp.conf", "plp.conf")}
_PITCH_CONFS = ("conf/online_pitch.conf", "conf/pitch.conf", "pitch.conf")
LOOKAHEAD_FILES = "HCLr.fst", "Gr.fst", "disambig_tid.int"
_PHRASE_GRAPH = "graph-lookahead"     # a folder
_EXTRACTORS = ("ivector", "ivector_extractor")
_RNNLM = "rnnlm"
_EXTRACTOR_FILES = {"lda-matrix": "final.mat", "global-cmvn-stats": "global_cmvn.stats", "diag-ubm": "final.dubm",
                    "ivector-extractor": "final.ie"}


@dataclass
class ModelFolder:
    """The files and options of a model for recognition; "" for a file that does not exist.

    Attributes
    ----------
    path, layout : the folder, and one of ``LAYOUTS``
    model : the acoustic model
    graph : HCLG.fst; or HCLr.fst, the first part of a lookahead graph
    grammar, disambig : Gr.fst, the second part of a lookahead graph, and the list of disambiguation labels
    phrase_graph : HCLr.fst of a lookahead graph in a folder of its own, for phrases and boosted words
    words : words.txt, or a graph with a table of words
    word_boundary, align_lexicon : files for the times of words
    old_grammar, new_grammar : rescore/G.fst and rescore/G.carpa, whose costs replace those of G.fst in results
    rnnlm : folder of an RNN language model, for rescoring after rescore/G.carpa
    feature_kind, features : ``mfcc``, ``fbank`` or ``plp``, and their options
    pitch : options of appended pitch; None: no pitch
    options : options of decoding, endpoints, silence weighting and the network that files or the caller give
    ivectors : options and files of i-vectors; None: no i-vectors
    cmvn : options of normalizing the network's input, with ``global-cmvn-stats``; None: no normalization
    missing : messages about missing files and options
    missing_graph : the messages of ``missing`` that concern only decoding with a graph
    unused : messages about files that are not used
    """

    path: str
    layout: str
    model: str = ""
    graph: str = ""
    grammar: str = ""
    disambig: str = ""
    phrase_graph: str = ""
    words: str = ""
    word_boundary: str = ""
    align_lexicon: str = ""
    old_grammar: str = ""
    new_grammar: str = ""
    rnnlm: str = ""
    feature_kind: str = "mfcc"
    features: dict[str, OptionValue] = field(default_factory=dict)
    pitch: dict[str, OptionValue] | None = None
    options: dict[str, OptionValue] = field(default_factory=dict)
    ivectors: dict[str, OptionValue | dict[str, OptionValue]] | None = None
    cmvn: dict[str, OptionValue] | None = None
    missing: list[str] = field(default_factory=list)
    missing_graph: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)

    @property
    def is_lookahead(self) -> bool:
        """True if the graph is composed while decoding."""
        return bool(self.grammar)

    @property
    def takes_phrases(self) -> bool:
        """True if streams can have phrases and boosted words."""
        return self.is_lookahead or bool(self.phrase_graph)

    def describe(self) -> str:
        """Return a description of the model in one line."""
        graph = "no graph" if not self.graph else "a lookahead graph" if self.is_lookahead else "a graph"
        parts = [graph, self.feature_kind.upper() if self.feature_kind != "fbank" else "filterbanks"]
        parts += ["pitch"] if self.pitch is not None else []
        parts += ["i-vectors"] if self.ivectors is not None else []
        parts += ["normalized input"] if self.cmvn is not None else []
        parts += ["words aligned by " + os.path.basename(self.word_boundary or self.align_lexicon)] if (
            self.word_boundary or self.align_lexicon) else []
        parts += ["rescoring" + " with an RNN language model" * bool(self.rnnlm)] if self.new_grammar else []
        parts += ["a lookahead graph for phrases"] if self.phrase_graph else []
        return f"{LAYOUTS[self.layout]}, with {', '.join(parts)}"


def read_model_folder(path: str | os.PathLike[str], graph: str | os.PathLike[str] | None = None,
                      options: Mapping[str, OptionValue] | None = None) -> ModelFolder:
    """Find the files and options of a model, without loading the model.

    Parameters
    ----------
    path : a model folder of any layout; or an acoustic model in a model folder
    graph : a graph (HCLG.fst, or HCLr.fst with Gr.fst beside it), or a folder with a graph; None: the folder's own
    options : options by Kaldi's names, which take precedence over those of files: of decoding, endpoints, i-vectors'
        silence weighting, and files: ``mfcc-config``, ``fbank-config``, ``ivector-extraction-config``, ``words``,
        ``word-boundary``, ``align-lexicon``

    Returns
    -------
    ModelFolder, files and options

    Raises
    ------
    Nnet3Error : missing files, all of which are named
    UsageError : an unknown option
    """
    folder = look_at_folder(path, graph, options)
    if folder.missing:
        raise Nnet3Error(f"{folder.path} cannot be used for recognition: {'; '.join(folder.missing)}",
                         f"its layout is that of {LAYOUTS[folder.layout]}; 'nnet3py inspect' describes it")
    return folder


def look_at_folder(path: str | os.PathLike[str], graph: str | os.PathLike[str] | None = None,
                   options: Mapping[str, OptionValue] | None = None) -> ModelFolder:
    """Find the files and options of a model like :func:`read_model_folder`, but allow for missing ones.

    What is missing is listed in the result's ``missing``. Raises Nnet3Error only if there is no such folder.
    """
    return _Reader(os.fspath(path), os.fspath(graph) if graph else "", dict(options or {})).read()


class _Reader:
    def __init__(self, path: str, graph: str, given: dict[str, Any]) -> None:
        model = path if os.path.isfile(path) else ""
        folder = os.path.dirname(path) or "." if model else path
        if not os.path.isdir(folder):
            raise Nnet3Error(f"there is no model folder {path}", "give a folder, or the acoustic model in it")
        self._graph, self._files = graph, {name: str(given.pop(name, "") or "") for name in (
            "words", "word-boundary", "align-lexicon")}
        self._given = {name.replace("_", "-"): value for name, value in given.items()}
        self.folder = ModelFolder(folder, _layout(folder), model)

    def read(self) -> ModelFolder:
        """Find all files and options; return the ModelFolder."""
        folder = self.folder
        folder.model = folder.model or self._one_of("am/final.mdl", "final.mdl") or self._lack(
            "there is no acoustic model, am/final.mdl or final.mdl")
        before = len(folder.missing)
        self._find_graph()
        folder.missing_graph = folder.missing[before:]
        self._attempt(self._read_options)
        self._attempt(self._read_features)
        self._attempt(self._read_ivectors)
        self._attempt(self._read_cmvn)
        self._attempt(self._refuse)
        self._attempt(self._find_rescoring)
        return folder

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _one_of(self, *names: str) -> str:
        """Return the path of the first of ``names`` that is a file in the folder; "" if none is."""
        paths = (os.path.join(self.folder.path, name) for name in names)
        return next((path for path in paths if os.path.isfile(path)), "")

    def _lack(self, what: str) -> str:
        self.folder.missing.append(what)
        return ""

    def _attempt(self, step: Callable[[], None]) -> None:
        """Call ``step``; append the message of an Nnet3Error that it raises to ``missing``."""
        try:
            step()
        except Nnet3Error as error:
            self._lack(str(error))

    # -- graphs --------------------------------------------------------------------------------------------------------

    def _find_graph(self) -> None:
        folder = self.folder
        folder.graph = self._graph if os.path.isfile(self._graph) else _graph_in(self._graph or folder.path)
        if not folder.graph and not self._graph:
            graphs = sorted(filter(None, map(_graph_in, glob(os.path.join(escape(folder.path), "graph*")))))
            folder.graph = _graph_in(os.path.join(folder.path, "graph")) or (graphs[0] if len(graphs) == 1 else "")
            if len(graphs) > 1 and not folder.graph:
                self._lack(f"there is more than one graph: say which of {', '.join(map(os.path.dirname, graphs))}")
                return
        if not folder.graph:
            self._lack(f"there is no graph, HCLG.fst or HCLr.fst with Gr.fst, in {self._graph or folder.path}")
            return
        beside = os.path.dirname(folder.graph) or "."
        if os.path.basename(folder.graph).startswith("HCLr"):
            folder.grammar = _file(beside, "Gr.fst") or self._lack(f"{folder.graph} has no Gr.fst beside it")
            folder.disambig = _file(beside, "disambig_tid.int") or self._lack(
                f"{folder.graph} has no disambig_tid.int beside it")
        elif not self._graph:
            other = os.path.join(folder.path, _PHRASE_GRAPH)
            if all(_file(other, name) for name in LOOKAHEAD_FILES):
                folder.phrase_graph = os.path.join(other, LOOKAHEAD_FILES[0])
        places = (beside, folder.path, os.path.join(folder.path, "graph"))
        folder.words = self._words(places) or self._lack(
            f"there is no words.txt beside {folder.graph}, nor are there words in it")
        folder.word_boundary = self._file_beside(places, "word-boundary", "phones/word_boundary.int",
                                                 "word_boundary.int")
        folder.align_lexicon = self._file_beside(places, "align-lexicon", "phones/align_lexicon.int",
                                                 "align_lexicon.int")

    def _words(self, places: tuple[str, ...]) -> str:
        """Return the file with the word table: words.txt in ``places``, or a graph with output symbols; "" for none.

        If there are both, the graph is taken for a folder of vosk's, as in vosk, and words.txt for other folders.
        """
        folder = self.folder
        graphs = [path for path in (folder.graph, folder.grammar) if path and has_output_symbols(path)]
        beside = self._file_beside(places, "words", "words.txt")
        if self._files["words"] or not graphs:
            return beside
        return graphs[0] if folder.layout in (VOSK, FLAT) else beside or graphs[0]

    def _file_beside(self, places: tuple[str, ...], option: str, *names: str) -> str:
        given = self._files[option]
        if given and not os.path.isfile(given):
            return self._lack(f"there is no file {given}, which was given for {option}")
        return given or next((path for place in places for name in names if (path := _file(place, name))), "")

    # -- options -------------------------------------------------------------------------------------------------------

    def _read_options(self) -> None:
        folder = self.folder
        values = dict(_DEFAULTS[folder.layout])
        online = self._one_of(ONLINE_CONF) if folder.layout != VOSK else ""
        if online:
            values |= read_conf(online, tables.ONLINE)
        conf = self._one_of(*MODEL_CONFS)
        if conf:
            values |= read_conf(conf, tables.DECODING)
        elif folder.layout == VOSK:
            self._lack("there is no conf/model.conf, with options of decoding")
        factor = subsampling_of_folder(folder.path)
        if factor is not None:
            values["frame-subsampling-factor"] = factor
        for name, value in self._given.items():
            values[name] = checked_value(name, text_of(value), tables.ONLINE)
        for setting in (*tables.LOOPED_SETTINGS, tables.CHUNK_LENGTH):
            check_limits(setting.name, values.get(setting.name), setting.default, setting.limits)
        self._silence(values)
        folder.options = values

    def _silence(self, values: dict[str, Any]) -> None:
        """Set missing options of silence in ``values``: the silence phones, and their weight for i-vectors."""
        beside = os.path.dirname(self.folder.graph)
        listed = _file(beside, "phones/silence.csl") if self.folder.layout in (KALDI, ONLINE) else ""
        if listed and not values.get("endpoint.silence-phones"):
            with open(listed, encoding="utf-8", errors="replace") as stream:
                values["endpoint.silence-phones"] = stream.read().strip()
        if self.folder.layout in (VOSK, FLAT):
            values.setdefault("ivector-silence-weighting.silence-phones", values.get("endpoint.silence-phones", ""))
            values.setdefault("ivector-silence-weighting.silence-weight", _VOSK_SILENCE_WEIGHT)

    def _named(self, option: str) -> str:
        """Return the path of the file that is the value of an option; "" if the option is not given."""
        name = str(self.folder.options.get(option, ""))
        return find_file(name, self.folder.path) if name else ""

    def _read_features(self) -> None:
        folder = self.folder
        kind = folder.options.get("feature-type", "")
        if kind not in ("", *_FEATURE_CONFS):
            raise UsageError(f"--feature-type={kind}: expected one of {', '.join(_FEATURE_CONFS)}")
        paths = {each: self._named(f"{each}-config") or self._one_of(*names) for each, names in _FEATURE_CONFS.items()}
        folder.feature_kind = kind or next((each for each in _FEATURE_CONFS if paths[each]), "mfcc")
        path = paths[folder.feature_kind]
        if not path:
            self._lack(f"there is no conf/{folder.feature_kind}.conf, which says how features are computed")
            return
        folder.features = read_conf(path, tables.of_features(folder.feature_kind))
        if folder.features.pop("output-format", "kaldi") != "kaldi":
            raise UsageError(f"--output-format of {path}: only kaldi can be used")
        pitch = self._named("online-pitch-config") or (
            self._one_of(*_PITCH_CONFS) if folder.options.get("add-pitch") or folder.layout in (VOSK, FLAT) else "")
        if pitch or folder.options.get("add-pitch"):
            folder.pitch = read_conf(pitch, tables.PITCH) if pitch else {}

    def _read_ivectors(self) -> None:
        folder = self.folder
        conf = self._named("ivector-extraction-config")
        if not conf and folder.layout not in (VOSK, FLAT):         # vosk does not read it
            conf = self._one_of("conf/ivector_extractor.conf")
        extractor = next((name for name in _EXTRACTORS if self._one_of(f"{name}/final.ie")), "")
        if conf:
            values = read_conf(conf, tables.IVECTOR)
            for option in tables.IVECTOR_FILES:
                if not values.get(option):
                    raise UsageError(f"{conf} does not set --{option}")
                values[option] = find_file(values[option], folder.path)
        elif extractor:
            values = self._extractor_files(extractor)
        else:
            return
        values["splice"] = read_conf(values["splice-config"], tables.SPLICE) if values["splice-config"] else {}
        values["cmvn"] = read_conf(values["cmvn-config"], tables.CMVN) if values["cmvn-config"] else {}
        folder.ivectors = values

    def _extractor_files(self, extractor: str) -> dict[str, Any]:
        """Return the i-vector options of a folder with an extractor (its subfolder), but without a conf file for it."""
        values: dict[str, Any] = {"max-count": _MAX_COUNT}
        for option, name in _EXTRACTOR_FILES.items():
            values[option] = self._one_of(f"{extractor}/{name}") or self._lack(
                f"{extractor}/ has final.ie, but no {name}")
        values["cmvn-config"] = self._one_of(f"{extractor}/online_cmvn.conf")
        values["splice-config"] = self._one_of(f"{extractor}/splice.conf", f"{extractor}/splice_opts")
        values["online-cmvn-iextractor"] = bool(self._one_of(f"{extractor}/online_cmvn_iextractor"))
        return values

    def _read_cmvn(self) -> None:
        folder = self.folder
        conf = self._named("cmvn-config")
        stats = self._named("global-cmvn-stats")
        if not conf and folder.layout in (VOSK, FLAT):
            stats = self._one_of("am/global_cmvn.stats" if folder.layout == VOSK else "global_cmvn.stats")
        elif not conf and self._one_of("online_cmvn"):
            stats, conf = stats or self._one_of("global_cmvn.stats"), self._one_of("conf/online_cmvn.conf")
        if conf and not stats:
            self._lack("the network's input is to be normalized, but there is no file for --global-cmvn-stats")
        elif stats and (conf or folder.layout in (VOSK, FLAT) or self._one_of("online_cmvn")):
            folder.cmvn = {**(read_conf(conf, tables.CMVN) if conf else {}), "global-cmvn-stats": stats}

    def _find_rescoring(self) -> None:
        folder = self.folder
        grammars = self._one_of("rescore/G.fst"), self._one_of("rescore/G.carpa")
        if all(grammars):
            folder.old_grammar, folder.new_grammar = grammars
        place = os.path.join(folder.path, _RNNLM)
        if self._one_of(f"{_RNNLM}/{NETWORK}") and folder.options.get("rnnlm", True):
            if not folder.new_grammar:
                folder.unused.append(f"the language model in {place} is not used: it takes the place of "
                                     "rescore/G.carpa, which, or rescore/G.fst, is not there")
                return
            try:
                find_rnnlm_files(place)
            except Nnet3Error as error:
                raise Nnet3Error(f"{error.message}; --model-option=rnnlm=false does without it") from None
            folder.rnnlm = place

    def _refuse(self) -> None:
        """Raise UsageError for options of Kaldi's that are not supported."""
        folder = self.folder
        if not folder.options.get("determinize-lattice", True):
            raise UsageError("--determinize-lattice=false: results need determinized lattices")
        if folder.layout == KALDI and folder.cmvn is None:
            self._offline_normalization()

    def _offline_normalization(self) -> None:
        for name in ("delta_opts", "final.mat"):
            if self._one_of(name):
                raise UsageError(f"found {name}: the features of this model are transformed (deltas or LDA), which "
                                 "streams cannot do")
        path = self._one_of("cmvn_opts")
        if path:
            with open(path, encoding="utf-8", errors="replace") as stream:
                text = stream.read()
            if "--norm-means=false" not in text or "--norm-vars=true" in text:
                raise UsageError(f"{path} says '{text.strip()}': streams cannot normalize features over whole "
                                 "utterances", "train with --cmvn-opts '--norm-means=false --norm-vars=false'")


def files_of_model(path: str | os.PathLike[str], graph: str | os.PathLike[str] | None = None,
                   options: Mapping[str, Any] | None = None) -> set[str]:
    """Return the paths of all files in a model's folder, and of files elsewhere that its options name.

    Arguments and errors are those of :func:`look_at_folder`.
    """
    folder = look_at_folder(path, graph, options)
    values = [*vars(folder).values(), *(folder.ivectors or {}).values(), *(folder.cmvn or {}).values()]
    named = {value for value in values if isinstance(value, str) and os.path.isfile(value)}
    return named | {os.path.join(place, name) for place, _, names in os.walk(folder.path) for name in names
                    if os.path.isfile(os.path.join(place, name))}


def stamp(files: Iterable[str]) -> Stamp:
    """Return the set of (name, size, time of change, inode) of files; it differs if any file has changed.

    Raises OSError for a file that does not exist.
    """
    states = []
    for file in files:
        state = os.stat(file)
        states.append((file, state.st_size, state.st_mtime_ns, state.st_ino))
    return frozenset(states)


def demo_folder() -> str:
    """Return the folder of the demo model in the package. Raises Nnet3Error if the package has none."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), DEMO)
    if not os.path.isfile(os.path.join(folder, "am", "final.mdl")):
        raise Nnet3Error("this copy of nnet3py has no demo model", "give the folder of a model instead")
    return folder


def _layout(folder: str) -> str:
    if is_published(folder):
        return VOSK
    if os.path.isfile(os.path.join(folder, ONLINE_CONF)):
        return ONLINE
    return FLAT if is_old_published(folder) else KALDI


def _file(folder: str, name: str) -> str:
    path = os.path.join(folder, name)
    return path if os.path.isfile(path) else ""


def _graph_in(folder: str) -> str:
    return _file(folder, "HCLG.fst") or _file(folder, "HCLr.fst")


_VARIABLE = "VOSK_MODEL_PATH"
_PREFIX = "vosk-model"
_LIST = "https://alphacephei.com/vosk/models"
_LANGUAGE = re.compile(r"vosk-model(?:-small)?-([a-z]{2}(?:-[a-z]{2})?)(?:-|$)")


def published_places() -> list[Path]:
    """Return the existing folders in which vosk looks for models: ``$VOSK_MODEL_PATH``, the system's, the user's."""
    given = os.environ.get(_VARIABLE)
    places = [Path(given)] if given else []
    places += [Path("/usr/share/vosk"), Path.home() / "AppData/Local/vosk", Path.home() / ".cache/vosk"]
    return [place for place in places if place.is_dir()]


def published_models() -> list[Path]:
    """Return the model folders in all of :func:`published_places`; in each place small models first, then by name."""
    folders: list[Path] = []
    for place in published_places():
        inside = [path for path in place.iterdir() if path.name.startswith(_PREFIX) and path.is_dir()]
        folders += sorted(inside, key=lambda path: (not path.name.startswith(f"{_PREFIX}-small"), path.name))
    return folders


def published_languages() -> list[str]:
    """Return the languages of the published models, such as ``ko`` or ``en-us``."""
    return sorted(filter(None, {language_of(path.name) for path in published_models()}))


def language_of(name: str) -> str:
    """Return the language in a published model's name, such as ``ko``; empty for another name."""
    match = _LANGUAGE.match(name)
    return match[1] if match else ""


def find_model(lang: str | None = None, name: str | None = None) -> str:
    """Return the folder of a published model. vosk: Model.get_model_path.

    ``lang``: a language, such as ``ko`` or ``en-us``, of which the first model is taken, preferably a small model.
    ``name``: a model's name, such as ``vosk-model-small-ko-0.22``, which takes precedence over ``lang``.

    Raises Nnet3Error if there is no such model; the hint names what to fetch and where to put it.
    """
    for place in published_places():
        if name is not None and (place / name).is_dir():
            return str(place / name)
    pattern = re.compile(rf"vosk-model(-small)?-{re.escape(lang or '')}")
    of_language = [str(path) for path in published_models() if name is None and lang and pattern.match(path.name)]
    if of_language:
        return of_language[0]
    what = f"named {name}" if name is not None else f"of the language '{lang}'"
    there = ", ".join(path.name for path in published_models()) or "none"
    target = os.environ.get(_VARIABLE) or str(Path.home() / ".cache" / "vosk")
    raise Nnet3Error(
        f"there is no model {what}; found {there}, in {', '.join(map(str, published_places())) or 'no folder'}",
        f"fetch {name or f'vosk-model-small-{lang}'} from {_LIST} and unpack it in {target}: nnet3py downloads nothing")
