"""A network in a file, from ``<Nnet3>`` to ``</Nnet3>``. Kaldi: ``Nnet::Read``, ``Nnet::Write``."""
from __future__ import annotations

import numpy as np

from nnet3py.components.base import Component
from nnet3py.components.registry import read_component_class
from nnet3py.config_line import is_valid_name
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.network.structure import NetworkStructure

_OTHER_MODELS = {"<DIMENSION>": "this is a GMM model", "<Nnet>": "this is a model of Kaldi's nnet1 or nnet2"}
MAX_COMPONENTS = 100000
LARGEST_CONFIG = 1 << 26     # bytes of config lines in a model file; the largest known are below 1 MB


def read_body(reader: TokenReader) -> tuple[str, dict[str, Component]]:
    """Read from ``<Nnet3>`` to ``</Nnet3>``: the config text of the nodes, and the components by name, in order.

    Raises
    ------
    FormatError : bytes that are not a network
    """
    token = reader.token()
    if token in _OTHER_MODELS:
        raise reader.unexpected(token, "<Nnet3>", _OTHER_MODELS[token])
    reader.check_token(token, "<Nnet3>")
    config = _read_config_text(reader)
    reader.expect("<NumComponents>")
    count = reader.integer()
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
    """The lines up to the first empty one, which end the config section; they are text in binary files too."""
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
    # a diverged or damaged model may hold infinite counts and NaN: it is read unchanged, for nnet3-info to show
    with np.errstate(all="ignore"):
        component = kind.read(reader)
    reader.component = None
    return name, component


def write_body(nnet: NetworkStructure, writer: TokenWriter) -> None:
    """Write from ``<Nnet3>`` to ``</Nnet3>``."""
    writer.token("<Nnet3>")
    writer.raw("".join(f"{line}\n" for line in ["", *nnet.config_lines(), ""]).encode())
    writer.token("<NumComponents>")
    writer.integer(len(nnet.components))
    writer.newline_if_text()
    for name, component in zip(nnet.component_names, nnet.components, strict=True):
        writer.token("<ComponentName>")
        writer.token(name)
        with np.errstate(all="ignore"):    # as in reading
            component.write(writer)
        writer.newline_if_text()
    writer.token("</Nnet3>")
