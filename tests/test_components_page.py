"""docs/components.md tells the truth: a section for each type, with the options that the code asks config lines for."""
from __future__ import annotations

import math
import re
from collections import defaultdict
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from component_configs import CONFIGS
from paths import ROOT

from nnet3py.components.base import Properties
from nnet3py.components.registry import COMPONENT_MODULES, component_class
from nnet3py.config_line import ConfigLine
from nnet3py.errors import ConfigError

PAGE = (ROOT / "docs" / "components.md").read_text(encoding="utf-8")
OPTIONS = ["key", "type", "default", "constraint", "meaning"]
COMMON_SECTION = "What trainable components share"
COMMON_LINK = "[four common ones](#what-trainable-components-share)"
DIFFERENCES_SECTION = "Measured differences from Kaldi"
TYPE_NAMES = {"get_int": {"int"}, "get_float": {"float"}, "get_bool": {"bool"}, "get_ints": {"ints"},
              "get_string": {"text", "file", "ints"}}
NUMBERED = re.compile(r"^component\d+$")     # keys of a composite, which the page calls componentN
types = pytest.mark.parametrize("name", sorted(COMPONENT_MODULES))


class Option(NamedTuple):
    key: str
    type: str
    default: str
    constraint: str
    meaning: str


@cache
def sections() -> dict[str, tuple[str, str]]:
    """Heading (of two or three signs) -> the heading of two above it, and the text up to the next one."""
    pieces = re.split(r"^(##+) (.+)$", PAGE, flags=re.MULTILINE)[1:]
    found, family = {}, ""
    for level, heading, text in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
        family = heading if level == "##" else family
        assert heading not in found, f"two sections '{heading}'"
        found[heading] = family, text
    return found


def table(text: str, first_cell: str) -> list[list[str]]:
    """The rows of the only table of the text whose heading begins so; none if there is no such table."""
    heads = re.findall(rf"^\| {first_cell} \|.*\n\|[-|]+\|\n((?:\|.*\n)*)", text + "\n", flags=re.MULTILINE)
    assert len(heads) <= 1
    return [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in "".join(heads).splitlines()]


def options(heading: str) -> dict[str, Option]:
    rows = table(sections()[heading][1].replace(r"\|", "¦"), "key")
    assert all(len(row) == len(OPTIONS) for row in rows), f"{heading}: a row of its options has other cells"
    found = [Option(row[0].strip("`"), *row[1:]) for row in rows]
    assert len({option.key for option in found}) == len(found)
    return {option.key: option for option in found}


class RecordingLine(ConfigLine):
    """A config line that keeps what it is asked for: ``asked`` is a list of key, method and default."""

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.asked: list[tuple[str, str, Any]] = []

    def has(self, key: str) -> bool:
        self.asked.append((key, "has", None))
        return super().has(key)


def recorded(method: str) -> Any:
    def get(self: RecordingLine, key: str, default: Any = None) -> Any:
        self.asked.append((key, method, default))
        return getattr(ConfigLine, method)(self, key, default)
    return get


for _method in (name for name in vars(ConfigLine) if name.startswith("get_")):
    setattr(RecordingLine, _method, recorded(_method))


class Asked(NamedTuple):
    form: str                # the config line
    methods: set[str]        # how the key was asked for
    defaults: list[Any]


@cache
def asked(name: str) -> dict[str, list[Asked]]:
    """Key -> what was asked for it, for each config line of the type, and for an empty one."""
    found: dict[str, list[Asked]] = defaultdict(list)
    for form in ["", *CONFIGS[name]]:
        line = RecordingLine(form)
        try:
            component_class(name).from_config(line, np.random.default_rng(0))
        except ConfigError:
            assert not form, f"{name}: {form}"
        for key in dict.fromkeys(NUMBERED.sub("componentN", key) for key, _, _ in line.asked):
            calls = [(method, default) for other, method, default in line.asked
                     if NUMBERED.sub("componentN", other) == key]
            found[key].append(Asked(form, {method for method, _ in calls} - {"has"},
                                    [default for method, default in calls if method != "has"]))
    return found


def without(form: str, key: str) -> str:
    """The config line without that key (the first number of a numbered one)."""
    key = "component1" if key == "componentN" else key
    return re.sub(rf"(?:^| ){key}=('[^']*'|\S+)", "", form)


def is_required(name: str, key: str) -> bool:
    """Whether every config line that gives the key is refused without it."""
    shorter = [without(form, key) for form in CONFIGS[name] if without(form, key) != form]
    for form in shorter:
        try:
            component_class(name).from_config(ConfigLine(form), np.random.default_rng(0))
            return False
        except ConfigError:
            pass
    return bool(shorter)


def as_constant(text: str) -> Any:
    """The value that a cell spells; None if it spells none."""
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"[a-z]+", text) or not re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", text):
        return None
    return float(text)


def as_formula(text: str, form: str) -> float:
    """The value of a formula of other keys, such as 1/√(input-dim), for the values that a config line gives."""
    line = ConfigLine(form)
    keys = sorted(set(re.findall(r"[a-z](?:[a-z-]*[a-z])?", text)), key=len, reverse=True)
    for key in keys:
        text = re.sub(rf"(?<![a-z-]){key}(?![a-z-])", str(line.get_int(key)), text)
    assert re.fullmatch(r"[0-9/√()· ]+", text), f"not a formula of keys: {text}"
    return float(eval(text.replace("√", "sqrt").replace("·", "*"), {"sqrt": math.sqrt}))


def default_fault(name: str, option: Option) -> str:
    """What is wrong with the default that the page gives; empty if nothing is."""
    calls = [(call.form, default) for call in asked(name)[option.key] for default in call.defaults]
    if option.default == "required":
        return "" if is_required(name, option.key) else "it may be left out"
    if option.default == "none":
        absent = ("", None, 0) if option.type == "int" else ("", None)
        has_value = [default for _, default in calls if default not in absent and default == default]   # not NaN
        return f"the code takes {has_value[0]}" if has_value else ""
    constant = as_constant(option.default)
    for form, default in calls:
        if isinstance(default, str):
            right = default == option.default
        elif constant is not None:
            right = default == constant and isinstance(default, bool) == isinstance(constant, bool)
        else:
            right = not form or bool(np.isclose(default, as_formula(option.default, form)))
        if not right:
            return f"the code takes {default} in '{form}'"
    return ""


def test_every_type_has_its_section_in_its_family():
    pages = {}
    for heading, (family, _) in sections().items():
        if heading.endswith("Component"):
            pages[heading] = re.search(r"`(\w+)\.py`$", family)[1]
    assert pages == {name: module.rpartition(".")[2] for name, module in COMPONENT_MODULES.items()}


@types
def test_a_section_has_what_a_reader_looks_for(name):
    text = sections()[name][1]
    assert text.count("```") == 2 and "\nDimensions: " in text and "\nKeeps: " in text
    simple = component_class(name).from_config(ConfigLine(CONFIGS[name][0]), np.random.default_rng(0)).has(
        Properties.SIMPLE)
    assert ("\nRows: " in text) is not simple, "types that are not simple, and only they, say which rows they need"


@types
def test_options_are_those_that_the_code_asks_for(name):
    common, own = options(COMMON_SECTION), options(name)
    shown = set(own) | (set(common) if COMMON_LINK in " ".join(sections()[name][1].split()) else set())
    assert shown == set(asked(name))
    assert not set(common) & set(own), "the common ones are described once"


@types
def test_types_and_defaults_of_options_are_those_of_the_code(name):
    faults = {}
    for option in {**options(COMMON_SECTION), **options(name)}.values():
        if option.key not in asked(name):
            continue
        fault = default_fault(name, option)
        methods = set().union(*(call.methods for call in asked(name)[option.key]))
        if fault:
            faults[option.key] = f"default {option.default}, but {fault}"
        elif any(option.type not in TYPE_NAMES[method] for method in methods):
            faults[option.key] = f"{option.type}, but the code asks by {methods}"
        elif not option.meaning and not option.constraint:
            faults[option.key] = "no word about it"
    assert not faults


def test_the_contents_list_every_type():
    rows = table(PAGE.partition("\n## ")[0], "type")
    listed = {}
    for link, family, trained, simple, purpose in rows:
        name = re.fullmatch(r"\[(\w+)\]\(#(\w+)\)", link)
        assert name and name[2] == name[1].lower() and purpose
        assert sections()[name[1]][0].lower().startswith(family.lower() + ":")
        listed[name[1]] = trained, simple
    assert list(listed) == [heading for heading in sections() if heading.endswith("Component")]
    for name, (trained, simple) in listed.items():
        made = [component_class(name).from_config(ConfigLine(form), np.random.default_rng(0)) for form in CONFIGS[name]]
        assert simple == ("yes" if made[0].has(Properties.SIMPLE) else "no"), name
        found = {component.has(Properties.UPDATABLE) for component in made}
        assert found == {"yes": {True}, "no": {False}}.get(trained, {True, False}), name


def test_every_type_has_a_row_in_the_table_of_differences():
    text = sections()[DIFFERENCES_SECTION][1]
    rows = table(text, "type")
    assert [row[0] for row in rows] == sorted(COMPONENT_MODULES)
    for name, cases, *numbers in rows:
        named = re.fullmatch(r"none, but (tests/\w+\.py)", cases)
        if named:
            assert (ROOT / named[1]).is_file(), name
        assert (set(numbers) == {"–"}) is bool(named), name
    printed = (ROOT / "benchmarks" / "results" / "components.txt").read_text(encoding="utf-8")
    assert table(printed, "type") == rows
    assert printed.splitlines()[0].partition("   #")[0].lstrip("$ ") in text


def test_the_page_is_linked():
    for page, link in (("README.md", "(docs/components.md)"), ("docs/architecture.md", "(components.md)")):
        assert link in (ROOT / page).read_text(encoding="utf-8"), page


@pytest.mark.parametrize("heading", [*COMPONENT_MODULES, COMMON_SECTION, DIFFERENCES_SECTION, "Natural gradient",
                                     "Orthonormal constraint"])
def test_links_within_the_page_lead_to_a_section(heading):
    anchors = {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in sections()}
    broken = set(re.findall(r"\]\(#([^)]+)\)", sections()[heading][1])) - anchors
    assert not broken


@pytest.mark.parametrize(("name", "key", "wrong"), [
    ("AffineComponent", "bias-stddev", "0.0"), ("AffineComponent", "param-stddev", "1/√(output-dim)"),
    ("AffineComponent", "matrix", "required"), ("AffineComponent", "input-dim", "5"),
    ("LinearComponent", "use-natural-gradient", "1"), ("ConvolutionComponent", "input-vectorization-order", "yzx"),
    ("NoOpComponent", "backprop-scale", "none")])
def test_a_wrong_default_is_found(name, key, wrong):
    assert default_fault(name, options(name)[key]._replace(default=wrong))
