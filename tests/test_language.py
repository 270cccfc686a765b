"""CONTRIBUTING.md's rules of language, as far as a program can see them: spelling, and how docstrings begin."""
from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from paths import ROOT, sources, tree

FOLDERS = ("nnet3py", "docs", "benchmarks", "egs", "tests")
STEMS = ("author|capital|categor|central|character|custom|determin|diar|diagonal|emphas|equal|factor|final|general|"
         "initial|linear|local|material|maxim|memor|minim|neutral|normal|optim|organ|orthogonal|parallel|penal|prior|"
         "quant|random|real|recogn|regular|serial|special|stabil|standard|summar|synchron|synthes|token|util|vector|visual")
BRITISH = re.compile(
    rf"(?i)(?<![a-z])(?:un|re|de)?(?:(?:{STEMS})it?is(?:e[ds]?|ers?|ing|ations?|able)|"
    rf"(?:{STEMS})is(?:e[ds]?|ers?|ing|ations?|able)|neighbour\w*|colour\w*|behaviour\w*|honour\w*|favour\w*|"
    r"(?:un|re)?labell(?:ed|ing)|(?:re)?modell(?:ed|ing)|centred?|centres|learnt|(?:mis)?spelt|analys(?:e[ds]?|ing)|"
    r"artefacts?|licence[sd]?)(?![a-z])")

OPENING = re.compile(r"(?:What|How|That|Those|This|These|It|Its|Of|One|All|Both|Where|When|Who|Why|Whether|Which|As|"
                     r"With|In|Such|So|Also|Same|The one|The ones)\b")


def texts() -> list[Path]:
    """Return the files that people read: sources and pages, without recorded data."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")
             if path.suffix in {".py", ".md", ".sh"} and "data" not in path.relative_to(ROOT).parts]
    return sorted([*files, *ROOT.glob("*.md")])


def opening_faults(module: ast.Module) -> list[str]:
    """List the docstrings of a module, its classes and functions that begin with no verb or noun, with their lines."""
    faults = []
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            if OPENING.match(docstring):
                faults.append(f"{getattr(node, 'lineno', 1)}: {docstring.splitlines()[0]}")
    return faults


def test_spelling_is_american() -> None:
    files: dict[str, list[Path]] = defaultdict(list)
    for path in texts():
        for word in set(re.findall("[A-Za-z]+", path.read_text(encoding="utf-8"))):
            files[word].append(path.relative_to(ROOT))
    here = Path(__file__).relative_to(ROOT)
    wrong = [f"{word}: {' '.join(map(str, paths))}" for word, paths in files.items() if BRITISH.fullmatch(word)]
    assert wrong and not [line for line in wrong if not line.endswith(f": {here}")]


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    assert not [f"{path.relative_to(ROOT)}:{fault}" for path in sources() for fault in opening_faults(tree(path))]


def test_faults_are_seen() -> None:
    assert BRITISH.search("a normalised value") and BRITISH.search("colours")
    assert not BRITISH.search("deterministic, optimistic, prior, a raised finalist")
    source = '''"""Names of words."""
def first():
    """What is first."""
class Second:
    """A second of sound."""
    def length(self):
        """Return the number of samples."""
'''
    assert opening_faults(ast.parse(source)) == ["2: What is first."]
