"""Files of raw networks, in text and binary, and the network in the file of an acoustic model.

Kaldi: ``ReadKaldiObject`` for ``Nnet``.
"""
from __future__ import annotations

import os

from nnet3py.errors import FormatError
from nnet3py.io.object_files import read_object
from nnet3py.io.tokens import TokenReader
from nnet3py.network.nnet import Nnet
from nnet3py.option_file import read_option_lines, split

LARGEST_SUBSAMPLING = 1000
_SUBSAMPLING, _PUBLISHED = "frame-subsampling-factor", "am"      # an option; the folder of a published model's network


def read_nnet(path: str | os.PathLike[str]) -> Nnet:
    """Read a network from a raw model or an acoustic model, text or binary.

    Parameters
    ----------
    path : any rxfilename: a file, ``-``, ``command |``, ``file:offset``

    Raises
    ------
    FormatError : bytes that are not a model; it names the file, the byte, the component and what was expected
    Nnet3Error : a file that cannot be opened
    """
    return read_object(path, read_nnet_or_model)


def subsampling_beside(path: str | None) -> int:
    """Frames of input for each row of output, as the folder of a chain model says; 1 if it says nothing.

    Training leaves a file ``frame_subsampling_factor`` beside the model; folders of published models have the option in
    conf/model.conf, beside the folder of the model.

    Parameters
    ----------
    path : the model's file, or any other rxfilename, or None

    Raises
    ------
    FormatError : either holds anything but a number of 1 or more; UsageError for a conf file that holds no options
    """
    if path is None or not os.path.isfile(path):
        return 1
    place = os.path.join(os.path.dirname(path), "frame_subsampling_factor")
    try:
        with open(place, encoding="utf-8", errors="replace") as file:
            text = file.read(100).strip()
    except OSError:
        folder, name = os.path.split(os.path.dirname(os.path.abspath(path)))
        place = os.path.join(folder, "conf", "model.conf")
        if name != _PUBLISHED or not os.path.isfile(place):
            return 1
        values = dict(split(line.text) for line in read_option_lines(place))
        text = values.get(_SUBSAMPLING, "1") or ""
    if not (text.isdecimal() and 1 <= int(text) <= LARGEST_SUBSAMPLING):
        raise FormatError(f"expected a number of 1 or more, found {text[:40]!r}", path=place,
                          hint="give frame_subsampling_factor, or mend the file")
    return int(text)



def read_nnet_or_model(reader: TokenReader) -> Nnet:
    """Read a network, or the network from an acoustic model; the header has been consumed already."""
    if reader.peek_token() == "T":
        from nnet3py.hmm.transition_model import TransitionModel

        TransitionModel.read(reader)
    return Nnet.read(reader)
