"""Every block of code in README.md and docs/: a test runs it, or it is listed with a reason.

What tests of other pages do not run is run here: the Python of the pages on chain, graphs, decoding, lattices and
discriminative training. The commands of blocks that need a whole corpus are at least known, and so are their options.
"""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import lattice_supervisions
import numpy as np
import pytest
from graph_systems import context_system
from pages import shell
from paths import DATA, ROOT

from nnet3py.chain.options import PhoneLmOptions
from nnet3py.chain.phone_lm import estimate_phone_lm
from nnet3py.cli.process.command import load
from nnet3py.cli.registry import COMMANDS, PERSON_NAMES
from nnet3py.egs.discriminative_example import read_discriminative_egs
from nnet3py.hmm.topology import chain_topology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object
from nnet3py.transducers.fst_text import read_fst_file, write_fst_file

FLOAT32 = 1e-6          # a logarithm kept as float32

CORPUS = "needs features, alignments and models of a corpus; its commands and options are checked here"
READER = "for the reader's own shell, whose files it changes"
# The test file that runs the blocks of a page, other than those in NOT_RUN.
RUN_BY = {
    "README.md": "test_docs_readme.py", "chain.md": "test_docs_blocks.py",
    "compiler.md": "test_compiler_page.py", "decoding.md": "test_docs_blocks.py",
    "discriminative.md": "test_docs_blocks.py", "export.md": "test_docs_export.py",
    "fine-tuning.md": "test_cli_fine_tune.py", "graphs.md": "test_docs_blocks.py", "lattices.md": "test_docs_blocks.py",
    "models.md": "test_docs_models.py", "python.md": "test_docs_python.py",
    "pytorch.md": "test_docs_pytorch.py",
    "recognition.md": "test_docs_recognition.py", "rnnlm.md": "test_docs_rnnlm.py",
    "serving.md": "test_docs_serving.py",
    "training.md": "test_docs_training.py", "tutorial.md": "test_docs_tutorial.py",
    "xconfig.md": "test_xconfig_page.py",
}
# Pages made of the examples in the commands' own usage texts, which a test compares; they are not run.
GENERATED = {"commands.md": "test_command_pages.py"}
# (page, how its block begins): why no test runs it.
NOT_RUN = {
    ("README.md", "git clone"): "an installation",
    ("README.md", 'eval "$(_NNET3PY_COMPLETE'): READER,
    ("README.md", "nnet3py xconfig-to-configs"): CORPUS,
    ("coming-from-kaldi.md", "export PATH="): READER,
    ("coming-from-kaldi.md", "nnet3py resident steps"): "needs Kaldi's scripts; see test_resident.py",
    ("from-vosk.md", "python -m nnet3py.vosk program.py"): "a program of the reader's; test_vosk.py runs one",
    ("training.md", "train-dnn --cmd="): "needs a grid; test_docs_training.py reads its options",
    ("training.md", "dask scheduler"): "needs other machines; test_docs_training.py reads its options",
    **{("chain.md", begin): CORPUS for begin in (
        "ali-to-phones final.mdl", "ali-to-phones --write-lengths", "lattice-align-phones", "nnet3-chain-get-egs",
        "text-to-phones", "prepare-lang", "chain-make-num-fst-e2e", "nnet3-chain-train", "xconfig-to-configs",
        "nnet3-latgen-faster", "cat > languages.txt")},
    **{("decoding.md", begin): CORPUS for begin in (
        "make-graph --phones", "nnet3-latgen-faster --", "nnet3-latgen-faster-lookahead", 'echo "#nonterm:name"',
        "make-graph --write-lang", "make-phone-loop --phones")},
    **{("lattices.md", begin): CORPUS for begin in ("lattice-scale", "lattice-1best", "lattice-lmrescore")},
    ("discriminative.md", "train-discriminative"): CORPUS,
}
CODE = {"python", "sh", "bash"}


class Block(NamedTuple):
    page: str
    kind: str
    text: str


def blocks(path: Path) -> list[Block]:
    """The blocks of code of a page; those of another kind are what is printed, files and drawings."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [Block(path.name, kind, text) for _, kind, text in found if kind in CODE]


def is_listed(block: Block) -> bool:
    return any(block.page == page and block.text.startswith(begin) for page, begin in NOT_RUN)


# docs/README.md lists the pages and has no code; its name is that of the page at the top.
PAGES = [ROOT / "README.md", *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "README.md")]
BLOCKS = [block for path in PAGES for block in blocks(path)]


def of_page(page: str, kind: str) -> list[str]:
    return [block.text for block in BLOCKS if block.page == page and block.kind == kind and not is_listed(block)]


def run(page: str, texts: list[str], names: dict[str, Any]) -> dict[str, Any]:
    """Run blocks of Python in one namespace, which is returned."""
    for text in texts:
        exec(compile(text, page, "exec"), names)
    return names


# -- the list ----------------------------------------------------------------------------------------------------------

def test_every_block_is_run_or_listed() -> None:
    assert len(BLOCKS) > 300 and not blocks(ROOT / "docs" / "README.md")
    lost = [f"{block.page}: {block.text.splitlines()[0]}" for block in BLOCKS
            if block.page not in RUN_BY | GENERATED and not is_listed(block)]
    assert not lost, "run them in a test, and name it in RUN_BY, or say in NOT_RUN why not:\n" + "\n".join(lost)


@pytest.mark.parametrize("page", RUN_BY | GENERATED)
def test_the_test_of_a_page_reads_it(page: str) -> None:
    assert any(block.page == page and not is_listed(block) for block in BLOCKS), "nothing of it is run any more"
    assert page in (ROOT / "tests" / (RUN_BY | GENERATED)[page]).read_text(encoding="utf-8")


def test_this_file_runs_all_python_of_its_pages() -> None:
    counts = {page: (len(of_page(page, "python")), len(of_page(page, "sh") + of_page(page, "bash")))
              for page, file in RUN_BY.items() if file == Path(__file__).name}
    assert counts == {"chain.md": (3, 2), "decoding.md": (3, 0), "discriminative.md": (1, 0), "graphs.md": (1, 0),
                      "lattices.md": (1, 0)}, "run the new block below"


@pytest.mark.parametrize("listed", NOT_RUN, ids=" ".join)
def test_what_is_listed_is_there_once(listed: tuple[str, str]) -> None:
    assert sum(block.page == listed[0] and block.text.startswith(listed[1]) for block in BLOCKS) == 1


@pytest.mark.parametrize("name", ["python.md", "pytorch.md", "rnnlm.md"])
def test_contents_name_every_section(name: str) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    sections = [re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-")
                for line in re.findall(r"^## (.*)$", text, re.MULTILINE)]
    assert re.findall(r"\]\(#([\w-]+)\)", text.split("\n## ")[0]) == sections


# -- blocks that need a corpus -----------------------------------------------------------------------------------------

def calls(text: str) -> list[tuple[str, list[str]]]:
    """The commands of ours in a block, also those within quotes, and the names of their options."""
    found: list[tuple[str, list[str]]] = []
    text = re.sub(r"(?<!\S)#.*|\\\n", " ", text)
    for piece in re.split(r"[|;\n]|\$\(", text):
        for word in re.split(r"[\s\"']+", piece.replace("nnet3py ", "")):
            name = word.removeprefix("ark:").removeprefix("scp:")
            if name in COMMANDS or name in PERSON_NAMES:
                found.append((PERSON_NAMES.get(name, name), []))
            elif found and (option := re.match(r"--([\w.-]+)(?:=|$)", word)):
                found[-1][1].append(option[1])
    return found


@pytest.mark.parametrize("block", [block for block in BLOCKS if is_listed(block) and CORPUS in [
    reason for (page, begin), reason in NOT_RUN.items() if block.page == page and block.text.startswith(begin)]],
    ids=lambda block: f"{block.page} {block.text.split()[0]}")
def test_commands_and_options_are_known(block: Block) -> None:
    found = calls(block.text)
    assert found
    for name, options in found:
        command = load(name)
        known = {option.name for option in command.declared} | {word.removeprefix("--") for parameter in command.params
                                                                 for word in parameter.opts}
        # OpenFst's programs take underscores for hyphens.
        unknown = {option for option in options if option not in known and option.replace("_", "-") not in known}
        assert not unknown, f"{name}: {sorted(unknown)}"


def test_an_unknown_option_would_be_found() -> None:
    assert calls("a 'ark:lattice-scale --nothing=1 ark:- |' x  # make-graph") == [("lattice-scale", ["nothing"])]


# -- pages that are run here -------------------------------------------------------------------------------------------

def test_chain_graphs_from_the_command_line(here: Path) -> None:
    """As they are written, with a phone language model of their five phones."""
    write_fst_file("phone_lm.fst", estimate_phone_lm([[1, 2, 3, 1], [1, 4, 5, 1]], PhoneLmOptions()))
    topology, graph = of_page("chain.md", "bash")
    shell(topology + graph)
    assert read_fst_file("den.fst").num_arcs > 0 and read_fst_file("normalization.fst").num_arcs > 0


def test_chain(here: Path) -> None:
    """On Kaldi's small system: graphs, supervision, objective."""
    folder = DATA / "chain"
    (here / "den.fst").write_bytes((folder / "den.fst").read_bytes())
    lines = [line.split() for line in (folder / "phones.seq").read_text(encoding="utf-8").splitlines()]
    model = read_object(folder / "0.trans_mdl", TransitionModel.read)
    names: dict[str, Any] = {
        "sequences": [[int(word) for word in words[1:]] for words in lines], "model": model,
        "tree": read_object(folder / "tree", ContextDependency.read), "num_pdfs": model.num_pdfs,
        "phones": np.array([1, 13, 18, 21, 12, 23]), "durations": np.full(6, 30)}
    first, second, third = of_page("chain.md", "python")
    run("chain.md", [first, second], names)
    assert names["den_fst"].num_arcs > 0 and names["piece"].frames_per_sequence == 50
    names["supervision"] = names["piece"]
    names["output"] = np.random.default_rng(0).standard_normal((50, model.num_pdfs), dtype=np.float32)
    names["deriv"] = np.zeros_like(names["output"])
    run("chain.md", [third], names)
    assert np.isfinite(names["objective"].value) and names["objective"].weight == 50 and names["deriv"].any()


def test_graphs(here: Path) -> None:
    (here / "lm.arpa").write_text(
        "\\data\\\nngram 1=4\nngram 2=2\n\n\\1-grams:\n-99\t<s>\t-0.3\n-1.0\t</s>\n-0.5\tone\t-0.2\n-0.6\ttwo\t-0.1\n\n"
        "\\2-grams:\n-0.25\tone two\n-0.2\t<s> one\n\n\\end\\\n", encoding="utf-8")
    names = run("graphs.md", of_page("graphs.md", "python"), {})
    assert names["graph"].num_arcs >= 4
    assert names["lookup"].log_prob([1, 3], 4) == pytest.approx(-0.25 * np.log(10.0), rel=FLOAT32)


def test_decoding(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A graph of a lexicon of two words, an utterance at once, and in chunks; both find the same words."""
    pytest.importorskip("kaldifst", reason="graphs are made with kaldifst (nnet3py[decode])")
    (here / "lexicon.txt").write_text("anna a b a\nbob b b\n", encoding="utf-8")
    tree, transition_model = context_system(chain_topology([1, 2, 3]), 2, 1, 0)
    likes = np.random.default_rng(0).standard_normal((30, transition_model.num_pdfs), dtype=np.float32)
    names: dict[str, Any] = {"phones": None, "tree": tree, "transition_model": transition_model,
                             "log_likelihoods": likes}
    _, whole, stream = of_page("decoding.md", "python")
    run("decoding.md", [whole], names)
    words = capsys.readouterr().out.split("[")[0].split()
    assert set(words) <= {"anna", "bob"} and len(names["found"].alignment) == 30
    assert names["compact"].num_arcs > 0
    (here / "graph").mkdir()
    write_fst_file("graph/HCLG.fst", names["graph"])
    names["chunks"] = np.array_split(np.float32(0.1) * likes, 3)
    run("decoding.md", [stream], names)
    assert len(capsys.readouterr().out.splitlines()) == 3 and names["lattice"].num_arcs > 0


def test_phones(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the model that comes with the package; what is printed stands below the block."""
    (here / "demo.wav").write_bytes((DATA / "demo.wav").read_bytes())
    block = of_page("decoding.md", "python")[0]
    run("decoding.md", [block], {})
    page = (ROOT / "docs" / "decoding.md").read_text(encoding="utf-8")
    assert f"{block}```\n```text\n{capsys.readouterr().out}```\n" in page


def test_lattices(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "lat.ark").write_bytes((lattice_supervisions.FOLDER / "lat.ark").read_bytes())
    names = run("lattices.md", of_page("lattices.md", "python"), {})
    shown = capsys.readouterr().out.splitlines()
    assert shown and shown[-1].startswith(names["key"])


def test_discriminative() -> None:
    (_, eg), = read_discriminative_egs(f"ark:{lattice_supervisions.FOLDER}/merged.degs")
    supervision, model = eg.outputs[0].supervision, lattice_supervisions.model()
    frames = supervision.num_sequences * supervision.frames_per_sequence
    output = np.random.default_rng(0).standard_normal((frames, model.transition_model.num_pdfs), dtype=np.float32)
    output -= np.log(np.exp(output).sum(axis=1, keepdims=True))
    names = run("discriminative.md", of_page("discriminative.md", "python"), {})
    value, derivative = names["objective_and_derivative"](model, supervision, output)
    assert 0.0 < value < 1.0 and derivative.shape == output.shape and derivative.any()      # sMBR: a share of frames
