"""Networks and acoustic models are called with features: ``nnet(feats)``. What a call takes and gives, for both."""
from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, overload

from nnet3py.errors import NoSuchAttribute, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from nnet3py.inspection.summary import Summary
    from nnet3py.runtime.compute import ComputeSettings, Features, NodeNames, Outputs


class _ModelType(type):
    """The type of networks and acoustic models: ``Nnet.load`` and ``Nnet("final.raw")`` say what to type instead."""

    if not TYPE_CHECKING:
        def __call__(cls, *arguments: Any, **settings: Any) -> Any:
            """An object of this class; UsageError for a path."""
            if arguments and isinstance(arguments[0], str | os.PathLike):
                raise UsageError(f"{cls.__name__}() does not take a path", cls._FROM_FILE)
            return super().__call__(*arguments, **settings)

        @property
        def __signature__(cls) -> inspect.Signature:
            """Not that of the call above, for ``help`` and editors."""
            signature = inspect.signature(cls.__init__)
            return signature.replace(parameters=list(signature.parameters.values())[1:])

        def __getattr__(cls, name: str) -> Any:
            """AttributeError, which says what to type instead."""
            advice = getattr(cls, "_ELSEWHERE", {}).get(name) if name != "_ELSEWHERE" else None
            raise NoSuchAttribute(f"{cls.__name__} has no '{name}'", lambda: advice)


class CallableModel(metaclass=_ModelType):
    """What computes outputs where it is called. The work is done by higher-level modules, imported by name."""

    _FROM_FILE: ClassVar[str]           # how one is read

    # Arrays are iterable, too: those overloads come first.
    @overload
    def __call__(self, feats: np.ndarray, ivector: np.ndarray | None = None, *, output: str = "output",     # type: ignore[overload-overlap]
                 **settings: Unpack[ComputeSettings]) -> NDArray[np.float32]: ...
    @overload
    def __call__(self, feats: np.ndarray, ivector: np.ndarray | None = None, *, output: NodeNames,     # type: ignore[overload-overlap]
                 **settings: Unpack[ComputeSettings]) -> dict[str, NDArray[np.float32]]: ...
    @overload
    def __call__(self, feats: Mapping[str, np.ndarray], ivector: Features | None = None, *, output: str = "output",
                 **settings: Unpack[ComputeSettings]) -> dict[str, NDArray[np.float32]]: ...
    @overload
    def __call__(self, feats: Mapping[str, np.ndarray], ivector: Features | None = None, *, output: NodeNames,
                 **settings: Unpack[ComputeSettings]) -> dict[str, dict[str, NDArray[np.float32]]]: ...
    @overload
    def __call__(self, feats: Iterable[np.ndarray], ivector: Features | None = None, *, output: str = "output",
                 **settings: Unpack[ComputeSettings]) -> list[NDArray[np.float32]]: ...
    @overload
    def __call__(self, feats: Iterable[np.ndarray], ivector: Features | None = None, *, output: NodeNames,
                 **settings: Unpack[ComputeSettings]) -> list[dict[str, NDArray[np.float32]]]: ...

    def __call__(self, feats: Features, ivector: Features | None = None, *, output: str | NodeNames = "output",
                 **settings: Unpack[ComputeSettings]) -> Outputs:
        """:func:`nnet3py.compute` of this model: float (frames, dim) -> float32 (frames, output dim).

        Parameters and results are those of that function. Of an acoustic model the network is computed: priors are
        not divided out.

        >>> nnet(feats).shape
        (100, 10)
        """
        compute = import_module("nnet3py.runtime.compute").compute
        outputs: Outputs = compute(self, feats, ivector, output=output, **settings)
        return outputs

    def summary(self) -> Summary:
        """A table of the layers with dimensions, frames, parameters; in a notebook with a drawing.

        The same as :func:`nnet3py.summary`.
        """
        table: Summary = import_module("nnet3py.inspection.summary").summary(self)
        return table
