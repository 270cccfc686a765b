"""Models that are called with features, ``nnet(feats)``: networks and acoustic models, with the types of such calls."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypedDict, overload

from nnet3py.advice import AdvisingType
from nnet3py.provided import provided

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Unpack

Features: TypeAlias = "np.ndarray | Iterable[np.ndarray] | Mapping[str, np.ndarray]"
NodeNames: TypeAlias = "list[str] | tuple[str, ...]"        # not any sequence: a string is one, too
Array: TypeAlias = "NDArray[np.float32]"
Outputs: TypeAlias = "Array | dict[str, Array] | dict[str, dict[str, Array]] | list[Array] | list[dict[str, Array]]"
Progress = Callable[[int, int], object]


class ComputeSettings(TypedDict, total=False):
    """Keyword arguments of :func:`nnet3py.compute` except ``output``, with their types."""

    frames_per_chunk: int
    device: str
    cache_dir: str | os.PathLike[str] | None
    frame_subsampling_factor: int | None
    progress: bool | Progress
    online_ivector_period: int | None


class NetworkTable(Protocol):
    """Interface of the result of ``summary``; :class:`nnet3py.inspection.summary.Summary` implements it."""

    @property
    def rows(self) -> tuple[Any, ...]:
        """Nodes, each with type, sources, dimensions and number of parameters."""

    @property
    def facts(self) -> Any:
        """Contexts, sizes and state of the whole network."""

    @property
    def headline(self) -> str:
        """Dimensions, contexts and size in a line."""


class CallableModel(metaclass=AdvisingType):
    """Base of models whose outputs are computed by calling them."""

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
        """Compute outputs of this model, as :func:`nnet3py.compute` does: float (frames, dim) -> float32 (frames, dim).

        Parameters and results are those of that function. An acoustic model's outputs are those of its network: priors
        are not divided out.

        >>> nnet(feats).shape
        (100, 10)
        """
        outputs: Outputs = provided("compute")(self, feats, ivector, output=output, **settings)
        return outputs

    def summary(self) -> NetworkTable:
        """Return a table of the layers with dimensions, frames, parameters; in a notebook with a drawing.

        The same as :func:`nnet3py.summary`.
        """
        table: NetworkTable = provided("summary")(self)
        return table
