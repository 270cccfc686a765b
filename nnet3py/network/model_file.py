"""Files of raw networks, in text and binary, and the network in the file of an acoustic model.

Kaldi: ``Nnet::Read``, ``Nnet::Write``, ``ReadKaldiObject`` for ``Nnet``.
"""
from __future__ import annotations

import os

import numpy as np

from nnet3py.components.base import Component
from nnet3py.components.registry import read_component_class
from nnet3py.config_line import is_valid_name
from nnet3py.errors import FormatError
from nnet3py.io.object_files import read_object
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.network.nnet import MAX_COMPONENTS, Nnet

_OTHER_MODELS = {"<DIMENSION>": "this is a GMM model", "<Nnet>": "this is a model of Kaldi's nnet1 or nnet2"}
LARGEST_SUBSAMPLING = 1000
LARGEST_CONFIG = 1 << 26     # bytes of config lines in a model file; the largest known are below 1 MB


def read_nnet(path: str | os.PathLike[str]) -> Nnet:
    """Read a network from a raw model or an acoustic model, text or binary.

    Parameters
    ----------
    path : any rxfilename: a file, ``-``, ``command |``, ``file:offset``

    Raises
    ------
    FormatError : bytes that are no model; it names the file, the byte, the component and what was expected
    Nnet3Error : a file that cannot be opened
    """
    return read_object(path, read_nnet_or_model)


def subsampling_beside(path: str | None) -> int:
    """Frames of input for each row of output, as the folder of a chain model says; 1 if it says nothing.

    Parameters
    ----------
    path : the model's file, or what else an rxfilename may be, or None

    Raises
    ------
    FormatError : the folder's file ``frame_subsampling_factor`` holds something else than a number of 1 or more
    """
    if path is None or not os.path.isfile(path):
        return 1
    path = os.path.join(os.path.dirname(path), "frame_subsampling_factor")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(100).strip()
    except OSError:
        return 1
    if not (text.isdecimal() and 1 <= int(text) <= LARGEST_SUBSAMPLING):
        raise FormatError(f"expected a number of 1 or more, found {text[:40]!r}", path=path,
                          hint="give frame_subsampling_factor, or mend the file")
    return int(text)


def read_nnet_or_model(reader: TokenReader) -> Nnet:
    """Read a network, or an acoustic model of which only the network is kept; the header is consumed already."""
    if reader.peek_token() == "T":
        from nnet3py.hmm.transition_model import TransitionModel

        TransitionModel.read(reader)
    return read_nnet_body(reader)


def read_nnet_body(reader: TokenReader) -> Nnet:
    """Read from ``<Nnet3>`` to ``</Nnet3>``. Raises FormatError, or ConfigError for the config lines in it."""
    token = reader.token()
    if token in _OTHER_MODELS:
        raise reader.unexpected(token, "<Nnet3>", _OTHER_MODELS[token])
    reader.check_token(token, "<Nnet3>")
    config = _read_config_text(reader)
    reader.expect("<NumComponents>")
    count = reader.integer()
    if not 0 <= count < MAX_COMPONENTS:
        raise reader.error(f"expected 0 to {MAX_COMPONENTS - 1} components, found {count}")
    nnet = Nnet()
    names: set[str] = set()
    for _ in range(count):
        name, component = _read_component(reader)
        if name in names:
            raise reader.error(f"two components are named {name}")
        names.add(name)
        nnet.component_names.append(name)
        nnet.components.append(component)
    reader.expect("</Nnet3>")
    nnet.path = reader.path or None
    nnet.read_config(config, path=nnet.path)
    return nnet


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
    # a diverged or damaged model may hold infinite counts and NaN: it is read as it is, for nnet3-info to show
    with np.errstate(all="ignore"):
        component = kind.read(reader)
    reader.component = None
    return name, component


def write_nnet_body(nnet: Nnet, writer: TokenWriter) -> None:
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
