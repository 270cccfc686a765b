"""docs/architecture.md: the files and folders that it names exist."""
from __future__ import annotations

import re

import pytest
from paths import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROOMS = sorted(path.parent.name for path in (ROOT / "nnet3py").glob("*/__init__.py"))


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`((?:[a-z_*]+/)+[a-z_]+\.py)`", PAGE))))
def test_files_exist(name: str) -> None:
    places = [ROOT, ROOT / "nnet3py", ROOT / "nnet3py" / "cli", ROOT / "nnet3py" / "compiler"]
    assert any(list(place.glob(name)) for place in places)


@pytest.mark.parametrize("room", ROOMS)
def test_every_folder_is_in_the_table_of_parts(room: str) -> None:
    table = PAGE[PAGE.index("## Six parts"):PAGE.index("## Where to look")]
    assert f"`{room}/`" in table


def test_files_to_read_first_exist() -> None:
    table = PAGE[PAGE.index("| part | folder"):PAGE.index("## Where to look")]
    for row in table.splitlines()[2:]:
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) < 6:
            continue
        folders, files = re.findall(r"`(\w+)/`", cells[2]), re.findall(r"`([\w/]+\.py)`", cells[4])
        for name in files:
            assert any((ROOT / "nnet3py" / folder / name).is_file() for folder in folders), f"{folders}: {name}"
