"""The order of the passes that fuse commands, and which of them run."""
from __future__ import annotations

from collections.abc import Iterator

from nnet3py.compiler.computation import Computation
from nnet3py.compiler.fuse.affine import FuseAffine
from nnet3py.compiler.fuse.backprop import FuseBackprop
from nnet3py.compiler.fuse.copies import OmitCopies
from nnet3py.compiler.fuse.fusion import Fusion, Pass
from nnet3py.compiler.fuse.marks import OmitMarks
from nnet3py.compiler.fuse.places import SharePlaces
from nnet3py.compiler.fuse.sums import FuseSums
from nnet3py.compiler.optimize_options import OptimizeOptions
from nnet3py.errors import UsageError
from nnet3py.network.nnet import Nnet

PASSES: tuple[Pass, ...] = (OmitMarks(), OmitCopies(), FuseSums(), FuseAffine(), FuseBackprop(), SharePlaces())


def fuse(computation: Computation, nnet: Nnet, options: OptimizeOptions | None = None) -> Computation:
    """The computation as it is to be run; ``computation`` itself, which is in Kaldi's commands, is not changed.

    Parameters
    ----------
    options : ``options.fuse`` names the passes that may run; none do without ``options.optimize``
    """
    steps = list(fusion_steps(computation, nnet, options or OptimizeOptions()))
    return steps[-1][1] if steps else computation


def fusion_steps(computation: Computation, nnet: Nnet, options: OptimizeOptions) -> Iterator[tuple[str, Computation]]:
    """The name of each pass that runs, and what it makes of the computation; see :func:`fuse`."""
    for fusion in wanted_passes(options):
        computation = fusion.run(computation, nnet)
        yield fusion.name, computation


def wanted_passes(options: OptimizeOptions) -> list[Pass]:
    """The passes that the options name; UsageError for a name that no pass has."""
    names = {fusion.name for fusion in PASSES}
    chosen = {word.strip() for word in options.fuse.split(",")} - {"", "none"}
    if "all" in chosen:
        chosen = names
    if chosen - names:
        raise UsageError(f"--optimization.fuse: there is no pass '{min(chosen - names)}'",
                         f"there are {', '.join(fusion.name for fusion in PASSES)}; or all, or none")
    if chosen:
        chosen.add(OmitMarks.name)       # marks stand in the way of all others
    return [fusion for fusion in PASSES if fusion.name in chosen] if options.optimize else []


def fusion_named(name: str) -> Fusion | None:
    """The pass of this name if it makes fused commands, else None."""
    return next((fusion for fusion in PASSES if fusion.name == name and isinstance(fusion, Fusion)), None)
