"""Inspection of a path: a model file, or a folder as Kaldi's training scripts leave it or as models are published."""
from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.hmm.tree import ContextDependency
from nnet3py.inspection.facts import PITCH_CONFS, FolderFacts, Inspection, ModelFacts
from nnet3py.inspection.model import model_facts
from nnet3py.inspection.readiness import judge
from nnet3py.io.object_files import read_object

if TYPE_CHECKING:
    from pathlib import Path

# Small text files whose contents are shown.
SETTINGS = ("frame_subsampling_factor", "cmvn_opts", "splice_opts", "delta_opts", "online_cmvn", "final.ie.id",
            "num_jobs", "srand", "configs/vars", "conf/mfcc.conf", "conf/fbank.conf", "conf/plp.conf",
            *PITCH_CONFS, "conf/model.conf", "mfcc.conf")
# Files whose presence is shown, with their purpose.
KNOWN_FILES = {
    "tree": "the tree that maps phones in context to pdfs",
    "phones.txt": "the names of the phones",
    "topo": "the topology of the phones",
    "0.trans_mdl": "the transition model, without a network",
    "den.fst": "the denominator graph of chain training",
    "normalization.fst": "the normalization graph of chain training",
    "lda.mat": "the transform of the first layer",
    "final.mat": "a transform of the features",
    "global_cmvn.stats": "statistics for online normalization of features",
    "configs/network.xconfig": "the layers of the network, in short",
    "configs/init.config": "the part of the network before the first transform",
    "configs/final.config": "the network as config lines",
    "accuracy.report": "accuracies of the training",
    "am/tree": "the tree that maps phones in context to pdfs",
    "am/global_cmvn.stats": "statistics for online normalization of features",
    "conf/online.conf": "options of online decoding",
    "graph/words.txt": "the words of the graph",
    "words.txt": "the words of the graph",
    "graph/phones.txt": "the names of the phones",
    "graph/phones/word_boundary.int": "which phones begin and end words",
    "rescore/G.fst": "the grammar of the graph, for rescoring",
    "rescore/G.carpa": "a larger grammar, for rescoring",
    "rnnlm/final.raw": "an RNN language model, for rescoring",
}
EGS_FOLDER, EGS_INFO = "egs", ("feat_dim", "ivector_dim", "left_context", "right_context", "num_archives",
                               "frames_per_eg", "frame_subsampling_factor", "num_frames", "final.ie.id")
GRAPHS = ("HCLG.fst", "graph*/HCLG.fst")
LOOKAHEAD_GRAPHS, GRAMMAR = ("HCLr.fst", "graph*/HCLr.fst"), "Gr.fst"     # composed while decoding
EXTRACTORS = ("ivector", "ivector_extractor")
EXTRACTOR_FILES = ("final.ie", "final.dubm", "final.mat", "global_cmvn.stats")
PUBLISHED_MODELS = "am"        # folder of the model in folders that are published for recognition
LARGEST_SETTING = 4096         # bytes of a small text file; longer ones are reported as a problem
LARGEST_PHONES = 1 << 24       # bytes of phones.txt that are read; the largest known files are below 1 MB
_NUMBERED = re.compile(r"(\d+)\.(mdl|raw)")


def model_names(folder: Path) -> list[str]:
    """Return the names of the model files in a folder, or else in its ``am/``, in the order of preference.

    ``final`` comes first, then the highest number; an acoustic model precedes a raw network of the same name.
    """
    def rank(name: str) -> tuple[int, int, bool, str]:
        stem, suffix = name.rsplit(".", 1)
        numbered = _NUMBERED.fullmatch(name)
        level = 0 if stem == "final" else 1 if stem == "combined" else 2 if numbered else 3
        return level, -int(numbered[1]) if numbered else 0, suffix == "raw", name

    names = sorted(_models_in(folder), key=rank)
    published = folder / PUBLISHED_MODELS
    return names or [f"{PUBLISHED_MODELS}/{name}" for name in
                     (sorted(_models_in(published), key=rank) if published.is_dir() else [])]


def _models_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.suffix in (".mdl", ".raw") and path.is_file()]


def folder_facts(folder: Path, problems: list[str]) -> FolderFacts:
    """Describe the files of a folder; messages about unusable files are appended to ``problems``."""
    facts = FolderFacts(str(folder), other_models=model_names(folder)[1:])
    facts.settings = _texts(folder, SETTINGS, problems)
    facts.files = {name: purpose for name, purpose in KNOWN_FILES.items() if (folder / name).is_file()}
    facts.graphs = sorted(str(path.relative_to(folder)) for pattern in GRAPHS for path in folder.glob(pattern))
    facts.graphs += sorted(str(path.relative_to(folder)) for pattern in LOOKAHEAD_GRAPHS
                           for path in folder.glob(pattern) if path.with_name(GRAMMAR).is_file())
    facts.extractor = next((name for name in EXTRACTORS if (folder / name / "final.ie").is_file()), "")
    if facts.extractor:
        lacking = [name for name in EXTRACTOR_FILES if not (folder / facts.extractor / name).is_file()]
        if lacking:
            problems.append(f"{facts.extractor}/ has final.ie, but no {', '.join(lacking)}")
    if (folder / EGS_FOLDER).is_dir():
        facts.egs = _texts(folder / EGS_FOLDER / "info", EGS_INFO, problems)
    for tree in ("tree", "am/tree"):
        if tree in facts.files:
            try:
                facts.num_tree_pdfs = read_object(str(folder / tree), ContextDependency.read).num_pdfs
            except Nnet3Error as error:
                problems.append(f"{tree} cannot be read: {error.message}")
    for phones in ("phones.txt", "graph/phones.txt"):
        if phones in facts.files and facts.num_phones is None:
            facts.num_phones = _count_phones(folder / phones, problems)
    return facts


def _texts(folder: Path, names: tuple[str, ...], problems: list[str]) -> dict[str, str]:
    """Read those of the files ``names`` that exist in a folder: name -> text."""
    texts = {}
    for name in names:
        if (folder / name).is_file():
            try:
                with open(folder / name, "rb") as stream:
                    data = stream.read(LARGEST_SETTING + 1)
            except OSError as error:
                problems.append(f"{name} cannot be read: {error.strerror}")
                continue
            if len(data) > LARGEST_SETTING or b"\0" in data:
                problems.append(f"{name} is not a short text, as it should be")
            else:
                texts[name] = data.decode("utf-8", "backslashreplace").strip()
    return texts


def _count_phones(path: Path, problems: list[str]) -> int | None:
    """Return the number of symbols of phones.txt, without epsilon and disambiguation symbols."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(LARGEST_PHONES)
    except OSError as error:
        problems.append(f"{path.name} cannot be read: {error.strerror}")
        return None
    lines = [line.split() for line in data.splitlines() if line.strip()]
    if not all(len(words) == 2 and words[1].isdigit() for words in lines):
        problems.append("phones.txt is not a list of symbols with their numbers")
        return None
    return sum(words[0] != b"<eps>" and not words[0].startswith(b"#") for words in lines)


def inspect(path: str | os.PathLike[str]) -> Inspection:
    """Describe a model or a model folder, and what is missing for computing, training or decoding.

    Parameters
    ----------
    path : a model file (any rxfilename; raw or acoustic, text or binary, or a transition model), or a folder, of which
        the final model is taken, or else the one with the highest number

    Returns
    -------
    An :class:`~nnet3py.inspection.facts.Inspection`: ``as_dict()`` for programs, ``text()`` for display.

    Raises
    ------
    FormatError : bytes that are not a model
    UsageError : anything but a path
    Nnet3Error : a path that cannot be opened, or a folder without any file of a model
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"expected a path, found {type(path).__name__}", "nnet3py.summary(nnet) describes a network")
    path = os.fspath(path)
    if not os.path.isdir(path):
        inspection = Inspection(path, model_facts(path), None)
    else:
        from pathlib import Path  # slow to load, and needed for folders only

        from nnet3py.inspection.inspect import folder_facts

        problems: list[str] = []
        names = _readable(Path(path))
        folder = folder_facts(Path(path), problems)
        if not names and not (folder.files or folder.settings):
            raise Nnet3Error(f"the folder {path} holds no model (*.mdl, *.raw) and nothing that belongs to one",
                             "give the folder that has final.mdl or final.raw in it, or the model itself")
        model = model_facts(os.path.join(path, names[0])) if names else None
        inspection = Inspection(path, model, folder, problems=problems)
        inspection.frame_subsampling_factor = _subsampling(folder, problems)
        problems += _contradictions(folder, model)
    judge(inspection)
    if inspection.folder is not None:
        from nnet3py.inspection.readiness import judge_recognition

        judge_recognition(inspection)
    return inspection


def _readable(path: Path) -> list[str]:
    from nnet3py.inspection.inspect import model_names

    try:
        return model_names(path)
    except OSError as error:
        raise Nnet3Error(f"cannot look into '{path}': {error.strerror}") from None


def _subsampling(folder: FolderFacts, problems: list[str]) -> int | None:
    """Return the frame subsampling factor from the folder's files or those about its examples; None without these."""
    places = {"frame_subsampling_factor": folder.settings.get("frame_subsampling_factor"),
              "egs/info/frame_subsampling_factor": folder.egs.get("frame_subsampling_factor"),
              "conf/model.conf, --frame-subsampling-factor,": _options(folder.settings.get("conf/model.conf", "")).get(
                  "frame-subsampling-factor")}
    name, text = next(((name, text) for name, text in places.items() if text is not None), ("", None))
    if text is None:
        return None
    number = _integer(text)
    if number is None or number < 1:
        problems.append(f"{name} holds {text[:40]!r}, which is not a number of 1 or more")
        return None
    return number


def _options(text: str) -> dict[str, str]:
    """Return the options of a file for --config, name -> text."""
    pairs = (line.split("#")[0].strip().removeprefix("--").partition("=") for line in text.splitlines())
    return {name.replace("_", "-").strip(): value.strip() for name, equals, value in pairs if equals}


def _integer(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.removeprefix("-").isdecimal() and len(text) < 10 else None


def _contradictions(folder: FolderFacts, model: ModelFacts | None) -> list[str]:
    """Return a message for each file of the folder that contradicts the model."""
    if model is None or model.network is None:
        return []
    network, transitions = model.network, model.transitions
    pairs: list[tuple[str, int | None, str, int | None]] = []
    if folder.num_tree_pdfs is not None:
        pairs.append(("tree has pdfs", folder.num_tree_pdfs, "the model's output has dimension",
                      network.output_dim("output") or None))
    if transitions is not None and "phones.txt" in folder.files:      # beside a graph it may have names of some only
        pairs.append(("phones.txt has phones", folder.num_phones, "the transition model has", transitions.num_phones))
    contexts = dict(line.split("=", 1) for line in folder.settings.get("configs/vars", "").splitlines() if "=" in line)
    for side, measured in (("left", network.left_context), ("right", network.right_context)):
        stated = _integer(contexts.get(f"model_{side}_context"))
        pairs.append((f"configs/vars says {side} context", stated, "the model needs", measured))
        given = _integer(folder.egs.get(f"{side}_context"))
        if given is not None and measured is not None and given < measured:
            pairs.append((f"egs/info has {side} context", given, "the model needs", measured))
    for name, key in (("input", "feat_dim"), ("ivector", "ivector_dim")):
        pairs.append((f"egs/info says {key}", _integer(folder.egs.get(key)), f"the model's '{name}' has",
                      network.input_dim(name)))
    contradictions = [f"{what}: {stated}, but {other}: {measured}" for what, stated, other, measured in pairs
             if stated is not None and measured is not None and stated != measured]
    mine, theirs = folder.settings.get("final.ie.id"), folder.egs.get("final.ie.id")
    if mine and theirs and mine != theirs:
        contradictions.append(f"final.ie.id is {mine}, but egs/info/final.ie.id {theirs}")
    return contradictions
