"""docs/concepts.md tells the truth: what it says is in the code is there, and what it calls absent is not."""
from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

import pytest
from paths import ROOT, shared_folder, tree

PAGE = ROOT / "docs" / "concepts.md"
PACKAGE = ROOT / "nnet3py"
HEADING = ["In Kaldi", "Where", "What differs, and why"]
ABSENT = "absent:"      # begins the "where" of what the code does not have; the names after it are where it would be
NOWHERE = "—"           # the "where" of what has no place here by design
MOST_LINES = 290        # a page that one can overlook
FEWEST_REFERENCES = 150  # a parser that overlooks tables would find fewer

# Words of the seeds' C++ listings that name no concept: local variables, the language, other systems.
NO_CONCEPT = set("""
    base_matrix cindex_set command_index indexes_multi_index input_cindexes input_step input_submatrix_index
    need_deriv num_parts num_steps num_variables_ output_nonlin output_submatrix_index part_index push_back
    some_matrix split_lists step_index step_info submat_lists submat_locations submat_locations_list submatrix_index
    this_info unordered_map value_submatrix_index variable_indexes variables_indexes ComputationRequests StepInfoo
    SumDescriptors cur_dim_offset num_commands this_dim
""".split())
WORD = re.compile(r"\b(?:k[A-Z][A-Za-z]+|[A-Z][a-z]+[A-Z][A-Za-z]*|[a-z]+(?:_[a-z]+)+_?)\b")


class Row(NamedTuple):
    line: int
    kaldi: str
    where: str
    difference: str


class Reference(NamedTuple):
    line: int
    absent: bool
    module: str      # below nnet3py/
    name: str        # "" for the module itself


def rows() -> Iterator[Row]:
    for number, text in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), 1):
        if text.startswith("|"):
            cells = [cell.strip() for cell in text.strip()[1:-1].split("|")]
            assert len(cells) == len(HEADING), f"line {number}: expected {len(HEADING)} cells, found {len(cells)}"
            if cells != HEADING and set("".join(cells)) != {"-"}:
                yield Row(number, *cells)


def references(row: Row) -> list[Reference]:
    """A module (a path ending in .py) is followed by names in it; alone it stands for itself."""
    found: list[Reference] = []
    module = ""
    for item in re.findall(r"`([^`]+)`", row.where):
        if item.endswith(".py"):
            module = item
            found.append(Reference(row.line, row.where.startswith(ABSENT), module, ""))
        else:
            assert module, f"line {row.line}: `{item}` comes before any module"
            if found[-1].name == "":
                found.pop()
            found.append(Reference(row.line, row.where.startswith(ABSENT), module, item))
    return found


def all_references() -> list[Reference]:
    return [reference for row in rows() for reference in references(row)]


def targets(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """What the statements assign to, tuples taken apart."""
    for node in nodes:
        if isinstance(node, ast.AnnAssign):
            yield node.target
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield from target.elts if isinstance(target, ast.Tuple) else [target]


def members(body: ast.ClassDef) -> set[str]:
    found = {target.id for target in targets(body.body) if isinstance(target, ast.Name)}
    for item in body.body:
        if isinstance(item, ast.FunctionDef):
            found.add(item.name)
            found |= {target.attr for target in targets(ast.walk(item)) if isinstance(target, ast.Attribute)
                      and isinstance(target.value, ast.Name) and target.value.id == "self"}
    return found


@cache
def definitions(module: str) -> frozenset[str] | None:
    """The names that a module defines, ``Class.member`` included; None if there is no such module."""
    path = PACKAGE / module
    if not path.is_file():
        return None
    found = set()
    for item in tree(path).body:
        if isinstance(item, ast.FunctionDef):
            found.add(item.name)
        elif isinstance(item, ast.ClassDef):
            found |= {item.name, *(f"{item.name}.{name}" for name in members(item))}
    return frozenset(found | {target.id for target in targets(tree(path).body) if isinstance(target, ast.Name)})


def resolves(reference: Reference) -> bool:
    names = definitions(reference.module)
    return names is not None and (not reference.name or reference.name in names)


def test_every_row_says_where_and_why() -> None:
    for row in rows():
        assert row.kaldi, f"line {row.line}: what of Kaldi's?"
        assert references(row) or row.where == NOWHERE, f"line {row.line}: no module in '{row.where}'"
        assert row.difference or row.where != NOWHERE, f"line {row.line}: why is it nowhere?"


def test_what_the_page_points_to_exists() -> None:
    present = [reference for reference in all_references() if not reference.absent]
    assert len(present) >= FEWEST_REFERENCES
    broken = [f"line {r.line}: {r.module} {r.name}" for r in present if not resolves(r)]
    assert not broken, "docs/concepts.md points to what is not there:\n" + "\n".join(broken)


def test_what_the_page_calls_absent_is_absent() -> None:
    found = [f"line {r.line}: {r.module} {r.name}" for r in all_references() if r.absent and resolves(r)]
    assert not found, "docs/concepts.md calls absent what exists by now; say where it is:\n" + "\n".join(found)


def test_no_docstring_claims_what_the_page_calls_absent() -> None:
    claims: dict[str, str] = {}
    for path in PACKAGE.rglob("*.py"):
        for text in re.findall(r"Kaldi: (.*)", path.read_text(encoding="utf-8")):
            claims.update((word, path.name) for word in re.findall(r"\w+", text))
    absent = {name for row in rows() if row.where.startswith(ABSENT) for name in re.findall(r"`(\w+)`", row.kaldi)}
    found = sorted(f"{name} ({claims[name]})" for name in absent & claims.keys())
    assert not found, f"docs/concepts.md calls absent what docstrings name: {', '.join(found)}"


def test_the_page_stays_short() -> None:
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_a_name_appears_in_one_place_of_the_first_column() -> None:
    seen: dict[str, int] = {}
    for row in rows():
        for name in re.findall(r"`([^`]+)`", row.kaldi):
            assert name not in seen, f"`{name}` heads the lines {seen[name]} and {row.line}"
            seen[name] = row.line


def test_every_concept_of_the_seeds_can_be_found() -> None:
    seeds = sorted(shared_folder("seeds").glob("*.txt"))
    words = {word for path in seeds for line in path.read_text(encoding="utf-8").splitlines()
             if not line.startswith(("//", "\\page", "\\section", "\\subs"))
             for word in WORD.findall(re.sub(r"\\\w+( dnn3\w*)?", " ", line)) if not word.startswith("dnn")}
    page = set(re.findall(r"\w+", PAGE.read_text(encoding="utf-8")))
    missing = sorted(words - NO_CONCEPT - page)
    assert len(words) > FEWEST_REFERENCES
    assert not missing, f"docs/concepts.md lacks: {', '.join(missing)}"


@pytest.mark.parametrize(("module", "name", "expected"), [
    ("index.py", "NO_TIME", True),
    ("index.py", "NOWHERE", False),
    ("compiler/nowhere.py", "", False),
    ("compiler/request.py", "IoSpecification.has_deriv", True),
    ("compiler/request.py", "IoSpecification.missing", False),
    ("compiler/computation.py", "Computation.new_matrix", True),
    ("compiler/computation.py", "CommandType.GOTO_LABEL", True)])
def test_resolution_itself(module: str, name: str, expected: bool) -> None:
    assert resolves(Reference(0, False, module, name)) is expected
