"""docs/compiler.md shows what the compiler really does: every block of output on it, and every drawing."""
from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from paths import ROOT
from scripts import load

DOCS = ROOT / "docs"
PAGE = DOCS / "compiler.md"
AGAIN = "run: python docs/make_compiler_page.py"
FEWEST_BLOCKS = 20      # of output; a page that lost them would agree with anything


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return load(DOCS / "make_compiler_page.py")


def test_the_page_and_its_drawings_are_as_the_code_makes_them(maker: ModuleType, tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.count("```text\n") >= FEWEST_BLOCKS
    again = maker.run_page(page, tmp_path)
    for line, (found, expected) in enumerate(zip(page.splitlines(), again.splitlines(), strict=False), 1):
        assert found == expected, f"line {line} of docs/compiler.md; {AGAIN}"
    assert page == again, AGAIN
    drawn = sorted(path.name for path in (tmp_path / "images").iterdir())
    assert drawn and all(f"(images/{name})" in page for name in drawn)
    for name in drawn:
        kept = DOCS / "images" / name
        assert kept.is_file() and kept.read_text("utf-8") == (tmp_path / "images" / name).read_text("utf-8"), AGAIN


def test_outputs_are_replaced_and_the_rest_stays(maker: ModuleType, tmp_path: Path) -> None:
    page = "a\n\n```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n\n```python\nx = 5\n```\n\n```text\nold\n```\n\nb\n"
    expected = "a\n\n```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n\n```python\nx = 5\n```\n\nb\n"
    assert maker.run_page(page, tmp_path) == expected
    assert maker.run_page(expected, tmp_path) == expected


def test_code_that_fails_is_an_error(maker: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        maker.run_page("```python\n1 / 0\n```\n", tmp_path)
    with pytest.raises(RuntimeError, match="nowhere.raw"):
        maker.run_page("```sh\nnnet3py compile nowhere.raw\n```\n", tmp_path)
