"""Readers of config lines and model files, and the writer of model files.

Config lines are read in two passes, nodes first without their inputs, so that a line may refer to later ones. Kaldi:
``Nnet::ReadConfig``, ``Nnet::Read``, ``Nnet::Write``.
"""
from __future__ import annotations

import numpy as np

from nnet3py.components.base import Component
from nnet3py.components.registry import component_class, read_component_class
from nnet3py.config_line import ConfigLine, did_you_mean, is_valid_name, parse_config_lines
from nnet3py.errors import ConfigError, DescriptorError, Nnet3Error
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.network.descriptor import Descriptor
from nnet3py.network.descriptor_parser import parse_descriptor
from nnet3py.network.structure import (
    OBJECTIVES,
    ComponentNode,
    DescriptorNode,
    DimRangeNode,
    InputNode,
    NetworkStructure,
    Node,
    check_nnet,
)
from nnet3py.random_sequence import unsigned

_OTHER_MODELS = {"<DIMENSION>": "this is a GMM model", "<Nnet>": "this is a model of Kaldi's nnet1 or nnet2"}
MAX_COMPONENTS = 100000
LARGEST_CONFIG = 1 << 26     # bytes of config lines in a model file; the largest known are below 1 MB


def read_body(reader: TokenReader) -> tuple[str, dict[str, Component]]:
    """Read from ``<Nnet3>`` to ``</Nnet3>``: the config lines of the nodes, and the components by name, in order.

    Raises FormatError for data that are not a network.
    """
    token = reader.token()
    if token in _OTHER_MODELS:
        raise reader.unexpected(token, "<Nnet3>", _OTHER_MODELS[token])
    reader.check_token(token, "<Nnet3>")
    config = _read_config_text(reader)
    count = reader.tagged("<NumComponents>", TokenReader.integer)
    if not 0 <= count < MAX_COMPONENTS:
        raise reader.error(f"expected 0 to {MAX_COMPONENTS - 1} components, found {count}")
    components: dict[str, Component] = {}
    for _ in range(count):
        name, component = _read_component(reader)
        if name in components:
            raise reader.error(f"two components are named {name}")
        components[name] = component
    reader.expect("</Nnet3>")
    return config, components


def _read_config_text(reader: TokenReader) -> str:
    """Read the config lines, which are text in binary files too, up to the empty line that ends them."""
    first = reader.read_line().strip(b" \t\r")
    if first:
        raise reader.unexpected_bytes(first, "a newline after <Nnet3>")
    lines: list[bytes] = []
    size = 0
    while line := reader.read_line().rstrip(b"\r"):
        lines.append(line)
        size += len(line)
        if size > LARGEST_CONFIG:
            raise reader.error("expected an empty line at the end of the config lines, found none in "
                               f"{LARGEST_CONFIG} bytes")
    try:
        return b"\n".join(lines).decode("utf-8")
    except UnicodeDecodeError as error:
        raise reader.error(f"expected config lines, found bytes that are not text: {error.reason}") from None


def _read_component(reader: TokenReader) -> tuple[str, Component]:
    reader.expect("<ComponentName>")
    name = reader.token()
    if not is_valid_name(name):
        raise reader.unexpected(name, "the name of a component")
    reader.component = name
    kind = read_component_class(reader)
    # The counts of a diverged or damaged model may be infinite or NaN: it is read unchanged, for nnet3-info to show.
    with np.errstate(all="ignore"):
        component = kind.read(reader)
    reader.component = None
    return name, component


def write_body(nnet: NetworkStructure, writer: TokenWriter) -> None:
    """Write from ``<Nnet3>`` to ``</Nnet3>``."""
    writer.token("<Nnet3>")
    writer.raw("".join(f"{line}\n" for line in ["", *nnet.config_lines(), ""]).encode())
    writer.tagged("<NumComponents>", TokenWriter.integer, len(nnet.components))
    writer.newline_if_text()
    for name, component in zip(nnet.component_names, nnet.components, strict=True):
        writer.token("<ComponentName>")
        writer.token(name)
        with np.errstate(all="ignore"):    # as in reading
            component.write(writer)
        writer.newline_if_text()
    writer.token("</Nnet3>")


FIRST_TOKENS = ("component", "component-node", "input-node", "output-node", "dim-range-node")
INPUT_SUFFIX = "_input"      # end of the name of the hidden node that is a component node's input


def component_rng(seed: int, name: str) -> np.random.Generator:
    """Return the random generator of a component's initial parameters, which depends only on seed and name."""
    import hashlib  # slow to load, and needed for new components only

    digest = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
    return np.random.Generator(np.random.Philox(key=np.array([unsigned(seed), digest], dtype=np.uint64)))


def read_config_into(nnet: NetworkStructure, text: str, seed: int = 0, path: str | None = None) -> None:
    """Add the nodes and components of config lines to ``nnet``; see ``Nnet.read_config``.

    A node that is defined again moves to the place of its new line; a component stays in its place.
    """
    new_lines = parse_config_lines(text, path)
    names = _checked_names(new_lines)
    redefined = {names[i] for i, line in enumerate(new_lines) if line.first_token != "component"}
    old_lines = [line for line in parse_config_lines("\n".join(nnet.config_lines()))
                 if line.get_string("name") not in redefined]
    trial = NetworkStructure()
    trial.components, trial.component_names = list(nnet.components), list(nnet.component_names)
    places = component_places(trial)
    for line, name in zip(new_lines, names, strict=True):
        if line.first_token == "component":
            put_component(trial, places, name, new_component(line, seed))
    node_lines = [*old_lines, *(line for line in new_lines if line.first_token != "component")]
    _add_nodes(trial, node_lines, places)
    try:
        check_nnet(trial, warn_for_orphans=True)
    except ConfigError as error:       # several lines may be at fault: only the file is named
        raise type(error)(error.message + (f" [{path}]" if path else ""), error.hint) from None
    nnet.nodes, nnet.components, nnet.component_names = trial.nodes, trial.components, trial.component_names


def _checked_names(lines: list[ConfigLine]) -> list[str]:
    """Return the name that each line defines. Raises ConfigError for an unknown kind of line or an unusable name."""
    names: list[str] = []
    seen: set[tuple[bool, str]] = set()
    for line in lines:
        if line.first_token not in FIRST_TOKENS:
            raise line.error(f"Invalid config-file line ('{line.first_token}' not expected): {line.whole_line}",
                             did_you_mean(line.first_token, list(FIRST_TOKENS))
                             or f"a line begins with one of {', '.join(FIRST_TOKENS)}")
        if not line.has("name"):
            raise line.error(f"Config line has no field 'name=xxx': {line.whole_line}")
        name = line.get_string("name")
        if not is_valid_name(name):
            raise line.error(f"Name '{name}' is not allowable, in line: {line.whole_line}",
                             "a letter or '_', then letters, digits, '_', '-' and '.'")
        is_component = line.first_token == "component"
        if (is_component, name) in seen:
            raise line.error(f"{'Component' if is_component else 'Node'} name {name} appears twice in the same "
                             f"config file.", f"in line: {line.whole_line}")
        seen.add((is_component, name))
        names.append(name)
    return names


def new_component(line: ConfigLine, seed: int = 0) -> Component:
    """Return the component of a config line, with initial parameters. Raises ConfigError for a line that has none."""
    name, type_name = line.get_string("name"), _required(line, "type")
    try:
        with np.errstate(all="ignore"):    # infinite parameters are reported below
            component = component_class(type_name).from_config(line, component_rng(seed, name))
    except Nnet3Error as error:
        raise _in_line(line, error) from None
    except MemoryError:
        raise _in_line(line, ConfigError("the component does not fit in memory", "are the dimensions right?")
                       ) from None
    line.check_all_used()
    if not all(np.isfinite(values).all() for values in component.parameters().values()):
        raise _in_line(line, ConfigError(
            "the component made from this line has parameters that are NaN or infinite",
            "make its standard deviations, scales and other numbers smaller, or mend its matrix file"))
    return component


def component_places(nnet: NetworkStructure) -> dict[str, int]:
    """Return the index of each component by its name."""
    return {name: index for index, name in enumerate(nnet.component_names)}


def put_component(nnet: NetworkStructure, places: dict[str, int], name: str, component: Component) -> int:
    """Replace the component of that name, or append a new one, and return its index.

    ``places``, from ``component_places``, is updated: a search through the names of all components would be slow.
    """
    if name in places:
        nnet.components[places[name]] = component
        return places[name]
    places[name] = len(nnet.components)
    nnet.components.append(component)
    nnet.component_names.append(name)
    return places[name]


def _required(line: ConfigLine, key: str) -> str:
    if not line.has(key):
        raise line.error(f"Expected {key}=xxx in config line: {line.whole_line}")
    return line.get_string(key)


def _in_line(line: ConfigLine, error: Nnet3Error) -> ConfigError:
    """Return ``error`` as a ConfigError that names the line and its place, unless it does already."""
    message = error.message
    if line.whole_line not in message:
        message = f"{message.rstrip('.')}, in config line: {line.whole_line}"
    names_place = line.number is not None and f"line {line.number}]" in message
    return ConfigError(message, error.hint) if names_place else line.error(message, error.hint)


# -- nodes -------------------------------------------------------------------------------------------------------------


def _add_nodes(nnet: NetworkStructure, lines: list[ConfigLine], components: dict[str, int]) -> None:
    """Fill ``nnet.nodes`` from config lines with valid and unique names."""
    new_nodes = [_new_nodes(components, line) for line in lines]
    nnet.nodes = [node for nodes in new_nodes for node in nodes]
    _check_hidden_names(nnet, lines)
    # Descriptors may mention all nodes except outputs and the hidden inputs of component nodes.
    visible = {node.name: i for i, node in enumerate(nnet.nodes) if not isinstance(node, DescriptorNode)}
    for line, nodes in zip(lines, new_nodes, strict=True):
        first, last = nodes[0], nodes[-1]
        if isinstance(last, DimRangeNode):
            last.source = _dim_range_source(line, visible)
        elif isinstance(first, DescriptorNode):
            first.descriptor = _parsed_descriptor(line, visible)
            if isinstance(last, DescriptorNode):
                last.objective = _objective(line)
        line.check_all_used()


def _new_nodes(components: dict[str, int], line: ConfigLine) -> list[Node]:
    """Make the nodes of a config line, without their inputs, which may refer to later nodes."""
    name = line.get_string("name")
    if line.first_token == "input-node":
        return [InputNode(name, _dim(line))]
    if line.first_token == "output-node":
        return [DescriptorNode(name, Descriptor(()))]
    if line.first_token == "dim-range-node":
        offset = line.get_int("dim-offset")
        if offset < 0:
            raise line.error(f"Invalid dimension-offset: {line.whole_line}", "dim-offset must be 0 or more")
        return [DimRangeNode(name, -1, offset, _dim(line))]
    component = _required(line, "component")
    if component not in components:
        raise line.error(f"No component named '{component}', in config line: {line.whole_line}",
                         did_you_mean(component, list(components)))
    return [DescriptorNode(name + INPUT_SUFFIX, Descriptor(())), ComponentNode(name, components[component])]


def _dim(line: ConfigLine) -> int:
    _required(line, "dim")
    dim = line.get_int("dim")
    if dim <= 0:
        raise line.error(f"Invalid dimension in config line: {line.whole_line}", "dim must be 1 or more")
    return dim


def _check_hidden_names(nnet: NetworkStructure, lines: list[ConfigLine]) -> None:
    """Raise ConfigError where a node has the name of the hidden input of a component node."""
    hidden = {node.name for i, node in enumerate(nnet.nodes) if nnet.is_component_input(i)}
    for line in lines:
        if line.get_string("name") in hidden:
            raise line.error(f"Node name {line.get_string('name')} is that of the input of a component node, in line: "
                             f"{line.whole_line}", f"take a name that does not end in {INPUT_SUFFIX}")


def _parsed_descriptor(line: ConfigLine, visible: dict[str, int]) -> Descriptor:
    text = _required(line, "input")
    try:
        return parse_descriptor(text, visible)
    except DescriptorError as error:
        what = ("Error parsing Descriptor in config line" if line.first_token == "component-node"
                else "Error parsing descriptor (input=...) in config line")
        raise DescriptorError(line.error(f"{error.message}. {what}: {line.whole_line}").message, error.hint) from None


def _objective(line: ConfigLine) -> str:
    objective = line.get_string("objective", "linear")
    if objective not in OBJECTIVES:
        raise line.error(f"Invalid objective type: {objective} in config line: {line.whole_line}",
                         f"expected {' or '.join(OBJECTIVES)}")
    return objective


def _dim_range_source(line: ConfigLine, visible: dict[str, int]) -> int:
    name = _required(line, "input-node")
    if name not in visible:
        raise line.error(f"Invalid input-node '{name}' in config line: {line.whole_line}",
                         did_you_mean(name, list(visible)) or "expected the name of an input or component node")
    return visible[name]
