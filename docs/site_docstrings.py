"""Docstrings as Markdown, for the reference: sections become lists, roles become code, examples become blocks.

The house's docstrings have sections as numpy's do, but what follows a colon there is a description, not a type.
"""
from __future__ import annotations

import re
from typing import Any

import griffe

_LISTS = ("Parameters", "Attributes", "Raises")
_SECTIONS = (*_LISTS, "Returns", "Yields", "Notes")
_ENTRY = re.compile(r"([\w*][\w.*, ]*?) : (.*)")
_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|exc):`(~?)([\w. <>-]+?)`")


def as_markdown(text: str) -> str:
    """A docstring, without its indentation, as Markdown."""
    lines = _with_blocks(_ROLE.sub(lambda match: f"`{match[2].rpartition('.')[2] if match[1] else match[2]}`", text))
    result: list[str] = []
    section = ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line in _SECTIONS and set(following) == {"-"}:
            section = line
            result += ["", f"**{line}**", ""]
        elif section and line and set(line) == {"-"}:
            continue
        elif section in _LISTS and (entry := _ENTRY.fullmatch(line)):
            names = ", ".join(f"`{name.strip()}`" for name in entry[1].split(","))
            result.append(f"- {names}: {entry[2]}")
        else:
            result.append(line)
    return "\n".join(result)


def _with_blocks(text: str) -> list[str]:
    """Lines, with fences around what begins with ``>>>``, up to the next empty line."""
    lines: list[str] = []
    in_block = False
    for line in text.split("\n"):
        if line.startswith(">>>") and not in_block:
            lines += ["", "```pycon"]
            in_block = True
        elif in_block and not line.strip():
            lines.append("```")
            in_block = False
        lines.append(line)
    return [*lines, "```"] if in_block else lines


class HouseDocstrings(griffe.Extension):
    """Changes the docstrings of all that mkdocstrings looks at."""

    def on_object(self, *, obj: Any, **others: Any) -> None:
        """Change the docstring of an object, in place."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
