"""Whether docstrings say what functions take and give: sections, every parameter, the type and shape of every array."""
from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum

ARRAYS = re.compile(r"ndarray|NDArray|ArrayLike|\bArray\b")
SHAPE = re.compile(r"\b(float|int|bool|numbers|integers|bytes)(\d\d?)?\b[^.;]*?"        # then a tuple, such as
                   r"\([^()]*[a-z0-9)][^()]*(\([^()]*\))?[^()]*\)")                      # (frames, left (1 + dim))
SECTION = re.compile(r"^(Parameters|Attributes|Returns|Yields|Raises|Notes)\n-+\n", re.MULTILINE)


def sections(docstring: str) -> dict[str, str]:
    """The text of each section by its heading; the part before the first by an empty one."""
    parts = SECTION.split(inspect.cleandoc(docstring))
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section: str) -> dict[str, str]:
    """The text that each name of a section has; names may share one."""
    found: dict[str, str] = {}
    for names, text in re.findall(r"^([\w*][\w., *\n]*?) : ((?:.*\n?)(?:^[ \n].*\n?)*)", section, re.MULTILINE):
        found.update(dict.fromkeys((name.strip(" *") for name in re.split(r"[,\n]", names)), text))
    return found


def faults_of_function(function: Callable[..., object]) -> Iterator[str]:
    """What the docstring of a function does not say."""
    signature, parts = inspect.signature(function), sections(function.__doc__ or "")
    described = entries(parts.get("Parameters", ""))
    for name, parameter in signature.parameters.items():
        if name in ("self", "cls") or name.startswith("_"):
            continue
        if name not in described:
            yield f"no parameter {name}"
        elif ARRAYS.search(str(parameter.annotation)) and not SHAPE.search(described[name]):
            yield f"no type and shape of {name}"
    given = parts.get("Returns", "") + parts.get("Yields", "")
    wanted = str(signature.return_annotation)
    if wanted != "None" and not given:
        yield "no section Returns"
    elif ARRAYS.search(wanted) and not SHAPE.search(given):
        yield "no type and shape of what it returns"


def faults_of_class(kind: type) -> Iterator[str]:
    """What the docstring of a class does not say of what it is made with or has."""
    if issubclass(kind, Enum):
        return
    parts = sections(kind.__doc__ or "")
    described = entries(parts.get("Parameters", "")) | entries(parts.get("Attributes", ""))
    if is_dataclass(kind):
        with_help = {field.name for field in fields(kind) if field.metadata.get("help")}
        wanted = {field.name: str(field.type) for field in fields(kind)
                  if not field.name.startswith("_") and field.name not in with_help}
    elif hasattr(kind, "_fields"):
        wanted = {name: str(kind.__annotations__.get(name, "")) for name in kind._fields}
    else:
        wanted = {name: str(parameter.annotation) for name, parameter in inspect.signature(kind).parameters.items()}
    for name, annotation in wanted.items():
        if name not in described:
            yield f"no attribute or parameter {name}"
        elif ARRAYS.search(annotation) and not SHAPE.search(described[name]):
            yield f"no type and shape of {name}"
    for name, member in vars(kind).items():
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        given = " ".join(str(value) for value in inspect.get_annotations(function).values())
        if ARRAYS.search(given) and not SHAPE.search(inspect.getdoc(function) or ""):
            yield f"no type and shape in {name}"


def faults(value: object) -> list[str]:
    """What the docstring of a function or a class does not say."""
    return list(faults_of_class(value) if isinstance(value, type) else faults_of_function(value))    # type: ignore[arg-type]
