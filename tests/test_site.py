"""The documentation's site: every page in it, links and anchors that lead somewhere, a place for every public name."""
from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

import pytest
from paths import ROOT

import nnet3py

DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.glob("*.md")), *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md",
                                                                "SECURITY.md"))]
LINK = re.compile(r"\]\(([^)\s#]*)(#[^)\s]*)?\)")


def without_code(path: Path) -> str:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", lambda match: match[0] if "](" not in match[0] else "", text)


@cache
def anchors(path: Path) -> set[str]:
    """Of the headings of a page, as code hosts and mkdocs make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    names: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.lower().strip()).replace(" ", "-")
        names.add(name if name not in names else next(f"{name}{sign}{n}" for n in range(1, 99) for sign in "-"
                                                      if f"{name}-{n}" not in names))
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for target, anchor in LINK.findall(without_code(page)):
        if ":" not in target:
            path = (page.parent / target).resolve() if target else page
            if not path.exists() or (anchor and path.suffix == ".md" and anchor[1:] not in anchors(path)):
                lost.append(target + anchor)
    assert not lost


def test_every_page_is_in_the_navigation_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"^ +- ([\w-]+\.md)$", text, re.MULTILINE)
    assert sorted(named) == sorted(page.name for page in DOCS.glob("*.md"))


def test_the_reference_has_every_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mkdocs", reason="make docs installs it")
    monkeypatch.syspath_prepend(str(DOCS))
    import site_hooks

    groups = site_hooks.public_groups()
    assert sorted(path for paths in groups.values() for path in paths) == sorted(
        f"{module}.{name}" for name, module in nnet3py._PUBLIC.items())
    assert len(site_hooks.reference_pages()) == len(groups) + 4 + 3
    assert site_hooks.outside_links("[a](../README.md) [b](python.md) [c](https://a.b) [d](../none.txt)", "docs") == [
        "README.md"]


def test_docstrings_become_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("griffe", reason="make docs installs it")
    monkeypatch.syspath_prepend(str(DOCS))
    import site_docstrings

    text = site_docstrings.as_markdown(
        "What :func:`nnet3py.train` does.\n\n>>> train(1)\n2\n\nParameters\n----------\nx, y : floats, see\n"
        "    :class:`~nnet3py.Nnet`\n\nReturns\n-------\nfloat32 (rows,) : of each")
    assert text == ("What `nnet3py.train` does.\n\n\n```pycon\n>>> train(1)\n2\n```\n\n\n**Parameters**\n\n"
                    "- `x`, `y`: floats, see\n    `Nnet`\n\n\n**Returns**\n\nfloat32 (rows,) : of each")
    assert "site_docstrings" in sys.modules


def test_the_citation_has_the_version() -> None:
    assert f"\nversion: {nnet3py.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_page_of_installation_names_what_is_installed() -> None:
    """Every dependency with its reason, and nothing else."""
    settings = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    listed = re.search(r"^install_requires =\n((?:    .+\n)+)", settings, re.MULTILINE)
    wanted = set(re.findall(r"^    ([\w-]+)", listed[1], re.MULTILINE)) | {"llvmlite"}
    rows = re.findall(r"^\| ([\w, -]+) \| \d+ \|", (DOCS / "installation.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for row in rows for name in row.split(", ")} == wanted


def requirements(section: str) -> set[str]:
    """What a section of setup.cfg lists, without spaces."""
    settings = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    [listed] = re.findall(rf"^{section} =\n((?:    .+\n)+)", settings, re.MULTILINE)
    return {line.replace(" ", "") for line in listed.splitlines()}


def test_the_conda_recipe_wants_what_the_package_wants() -> None:
    recipe = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    run = re.search(r"^  run:\n((?:    - .+\n)+)", recipe, re.MULTILINE)
    assert run
    wanted = {line.removeprefix("    - ").replace(" ", "") for line in run[1].splitlines()}
    by_pip = set(re.findall(r'"([\w-]+>=[\d.]+)"', recipe))
    assert wanted - {"python>=3.10"} | by_pip == requirements("install_requires")
    assert "python_requires = >=3.10" in (ROOT / "setup.cfg").read_text(encoding="utf-8") and "python>=3.10" in wanted


def test_the_container_installs_extras_that_there_are() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    named = re.search(r"pip install --no-cache-dir '\.\[([\w,]+)\]'", text)
    assert named and all(requirements(extra) for extra in named[1].split(","))
    version = re.search(r"^FROM python:(3\.\d+)", text, re.MULTILINE)
    classifiers = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    assert version and f"Programming Language :: Python :: {version[1]}" in classifiers
