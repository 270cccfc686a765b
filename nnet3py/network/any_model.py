"""Wherever a network goes, an acoustic model does, too; and where it is only looked at, the file of one."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from nnet3py.errors import UsageError
from nnet3py.network.callable_model import CallableModel
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet

if TYPE_CHECKING:
    from nnet3py.acoustic_model import AcousticModel

AnyModel: TypeAlias = "Nnet | AcousticModel"
AnyModelOrFile: TypeAlias = "Nnet | AcousticModel | str | os.PathLike[str]"


def network_of(model: AnyModel) -> Nnet:
    """The network itself, or that of an acoustic model. UsageError for anything else, such as a file."""
    if isinstance(model, Nnet):
        return model
    if isinstance(model, CallableModel):                # an acoustic model, whose module comes later
        return model.nnet
    if isinstance(model, str | os.PathLike):
        raise UsageError(f"expected a network, found the path {os.fspath(model)}",
                         f"nnet = nnet3py.read_nnet({os.fspath(model)!r})")
    shape = getattr(model, "shape", None)
    kind = f"{type(model).__name__} {tuple(shape)}" if isinstance(shape, tuple) else type(model).__name__
    raise UsageError(f"expected a network or an acoustic model, found {kind}",
                     None if shape is None else "the network comes first: nnet3py.compute(nnet, feats)")


def network_or_file(model: AnyModelOrFile) -> Nnet:
    """The same; or the network in a file, or in a model folder. Raises what ``read_nnet`` does, too."""
    return read_nnet(model) if isinstance(model, str | os.PathLike) else network_of(model)
