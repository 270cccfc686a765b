"""What a model folder holds besides models: as Kaldi's training scripts leave it, or as models are published."""
from __future__ import annotations

import re
from pathlib import Path

from nnet3py.errors import Nnet3Error
from nnet3py.hmm.tree import ContextDependency
from nnet3py.inspection.facts import PITCH_CONFS, FolderFacts
from nnet3py.io.object_files import read_object

# Small text files whose content is shown.
SETTINGS = ("frame_subsampling_factor", "cmvn_opts", "splice_opts", "delta_opts", "online_cmvn", "final.ie.id",
            "num_jobs", "srand", "configs/vars", "conf/mfcc.conf", "conf/fbank.conf", "conf/plp.conf",
            *PITCH_CONFS, "conf/model.conf", "mfcc.conf")
# Files that only have to be there, and what they are for.
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
LOOKAHEAD_GRAPHS, GRAMMAR = ("HCLr.fst", "graph*/HCLr.fst"), "Gr.fst"     # composed with each other while decoding
EXTRACTORS = ("ivector", "ivector_extractor")
EXTRACTOR_FILES = ("final.ie", "final.dubm", "final.mat", "global_cmvn.stats")
PUBLISHED_MODELS = "am"        # the model's folder in models that are published for recognition
LARGEST_SETTING = 4096         # bytes of a small text file that are read
LARGEST_PHONES = 1 << 24       # bytes of phones.txt; the largest known are below 1 MB
_NUMBERED = re.compile(r"(\d+)\.(mdl|raw)")


def model_names(folder: Path) -> list[str]:
    """Return the model files of a folder, the one that decoding would take first.

    That is ``final``, then the highest number; an acoustic model comes before a raw network of the same name. If there
    is none, those in ``am/``.
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
    """Look at what lies in a folder; files that cannot be used are appended to ``problems``."""
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
    """Return the texts of those small files that are there."""
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
    """Return the symbols of phones.txt, without epsilon and disambiguation symbols."""
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
