"""docs/xconfig.md tells the truth: every layer type with its options, their types and defaults; its examples run."""
from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from paths import ROOT
from xconfig_layers import LAYERS, xconfig

from nnet3py.cli.nnet.networks import xconfig_to_configs
from nnet3py.errors import ConfigError
from nnet3py.network.nnet import Nnet
from nnet3py.xconfig import LAYER_MODULES, expand, layer_class
from nnet3py.xconfig.layer import Layer, Value

PAGE = (ROOT / "docs" / "xconfig.md").read_text(encoding="utf-8")
SHARED = "What recurrent layers share"
SHARED_LINK = "[recurrent layers share](#what-recurrent-layers-share)"
KINDS = {"flag": bool, "int": int, "float": float, "text": str}
types = pytest.mark.parametrize("type", sorted(LAYER_MODULES))


@cache
def sections() -> dict[str, str]:
    """The text under each heading."""
    pieces = re.split(r"^##+ (.+)$", PAGE, flags=re.MULTILINE)[1:]
    assert len(set(pieces[::2])) == len(pieces[::2]), "two sections of the same name"
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


@cache
def section_of() -> dict[str, str]:
    """Layer type -> the heading under which it is described."""
    found: dict[str, str] = {}
    for heading, text in sections().items():
        listed = re.search(r"^Types: (.*?)\.$", text, re.MULTILINE | re.DOTALL)
        names = re.findall(r"`([^`]+)`", listed[1]) if listed else heading.split(", ")
        for name in names:
            if name in LAYER_MODULES:
                assert name not in found, name
                found[name] = heading
    return found


def rows(heading: str) -> dict[str, list[str]]:
    """Key -> type, default and meaning, as the section's table has them."""
    lines = re.findall(r"^\| (`.*) \|$", sections()[heading], re.MULTILINE)
    cells = [[cell.strip() for cell in line.split(" | ")] for line in lines]
    assert all(len(row) == 4 for row in cells), heading
    return {key.strip("`"): row for key, *row in cells}


def options(type: str) -> dict[str, list[str]]:
    heading = section_of()[type]
    shared = rows(SHARED) if SHARED_LINK in " ".join(sections()[heading].split()) else {}
    assert not set(shared) & set(rows(heading))
    return {**shared, **rows(heading)}


def without(options: str, key: str) -> str:
    return re.sub(rf"(?:^| ){key}=\S+", "", options)


def first_layer(type: str, options: str) -> Layer:
    return next(layer for layer in expand(xconfig(type, options)).layers if layer.type == type)


def is_refused(type: str, options: str) -> bool:
    try:
        expand(xconfig(type, options))
    except ConfigError:
        return True
    return False


def default_fault(type: str, key: str, shown: str, default: Value) -> str:
    """What is wrong with the default that the page gives; empty if nothing is."""
    plain = LAYERS[type][0]
    if "noconv" in type and key in ("height-offsets", "time-offsets"):
        return ""      # required in the other types of the section
    if shown == "required":
        return "" if is_refused(type, without(plain, key)) else "it may be left out"
    if is_refused(type, without(plain, key)):
        return "it may not be left out"
    if shown == "the line before":
        return "" if default == "[-1]" else f"it is {default}"
    if shown == "the input's":
        layer = first_layer(type, without(plain, key))
        return "" if layer.values[key] == layer.input_dim else f"it is {layer.values[key]}"
    spelled = {"none": "", "true": True, "false": False}.get(shown, shown.strip("`"))
    if isinstance(default, str) and isinstance(spelled, str):
        return "" if spelled.strip('"') == default else f"it is '{default}'"
    return "" if spelled == default or spelled == str(default) else f"it is {default}"


def test_every_type_has_its_section():
    assert set(section_of()) == set(LAYER_MODULES)


@types
def test_options_are_those_of_the_code(type):
    assert set(options(type)) == set(layer_class(type).OPTIONS)


@types
def test_types_and_defaults_of_options_are_those_of_the_code(type):
    faults = {}
    for key, (kind, shown, meaning) in options(type).items():
        default = layer_class(type).OPTIONS[key]
        fault = default_fault(type, key, shown, default)
        if fault:
            faults[key] = f"default {shown}, but {fault}"
        elif not isinstance(default, KINDS[kind]) or isinstance(default, bool) != (kind == "flag"):
            faults[key] = f"{kind}, but the default is {default!r}"
        elif not meaning:
            faults[key] = "no word about it"
    assert not faults


@types
def test_other_outputs_are_named(type):
    shown = re.findall(r"`NAME\.([\w-]+)`", sections()[section_of()[type]])
    assert tuple(shown) == layer_class(type).AUXILIARY


@pytest.mark.parametrize(("type", "key", "shown"), [
    ("relu-layer", "max-change", "`0.7`"), ("relu-layer", "dim", "required"),
    ("lstmp-layer", "cell-dim", "the input's"), ("lstm-layer", "cell-dim", "required"),
    ("relu-layer", "bias-stddev", "`0.0`"), ("input", "dim", "`-1`"),
    ("lstm-layer", "ng-affine-options", '`" max-change=0.75"`'), ("relu-renorm-layer", "add-log-stddev", "true")])
def test_a_wrong_default_is_found(type, key, shown):
    assert default_fault(type, key, shown, layer_class(type).OPTIONS[key])


def test_links_lead_somewhere():
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in sections()}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= anchors
    listed = set(re.findall(r"^\| \[[^]]+\]\(#([^)]+)\)", PAGE, re.MULTILINE))
    assert listed == {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in section_of().values()}


def test_the_examples_run(here):
    blocks = dict(re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    Path("network.xconfig").write_text(blocks[""])
    command, init = blocks["sh"].splitlines()
    assert command.startswith("nnet3py xconfig-to-configs ")
    assert xconfig_to_configs.execute(command.split()[2:]) == 0
    assert init == "nnet3-init exp/lstm/configs/final.config 0.raw"
    names: dict = {}
    exec(blocks["python"], names)
    assert isinstance(names["nnet"], Nnet) and names["nnet"].output_dim("output") == 2000


def test_the_page_is_linked():
    for page, link in (("README.md", "(docs/xconfig.md)"), ("docs/architecture.md", "(xconfig.md)")):
        assert link in (ROOT / page).read_text(encoding="utf-8"), page
