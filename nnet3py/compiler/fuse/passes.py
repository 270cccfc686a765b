"""The order of the passes that fuse commands, and the choice of those that run."""
from __future__ import annotations

from collections.abc import Iterator

from nnet3py.compiler.computation import Computation
from nnet3py.compiler.fuse.fusion import FuseAffine, FuseBackprop, FuseSums, Fusion, Pass
from nnet3py.compiler.fuse.matrices import OmitCopies, SharePlaces
from nnet3py.compiler.optimize.sizing import from_kaldi_form
from nnet3py.compiler.optimize_options import OMIT_MARKS, OptimizeOptions
from nnet3py.errors import UsageError
from nnet3py.network.nnet import Nnet

PASSES: tuple[Pass, ...] = (OmitCopies(), FuseSums(), FuseAffine(), FuseBackprop(), SharePlaces())


def fuse(computation: Computation, nnet: Nnet, options: OptimizeOptions | None = None) -> Computation:
    """Return the computation with fused commands; ``computation`` itself, in Kaldi's commands, is not changed.

    Parameters
    ----------
    options : ``options.fuse`` names the passes that may run; none do without ``options.optimize``
    """
    steps = list(fusion_steps(computation, nnet, options or OptimizeOptions()))
    return steps[-1][1] if steps else computation


def fusion_steps(computation: Computation, nnet: Nnet, options: OptimizeOptions) -> Iterator[tuple[str, Computation]]:
    """Yield the name of each pass that runs, and its result; parameters as for :func:`fuse`.

    From a computation out of Kaldi's cache files, swaps and compression commands are removed first.
    """
    passes = wanted_passes(options)
    plain = computation if options.keeps_kaldi_form() else from_kaldi_form(computation, nnet)
    if plain is not computation:
        yield OMIT_MARKS, plain
    for fusion in passes:
        plain = fusion.run(plain, nnet)
        yield fusion.name, plain


def wanted_passes(options: OptimizeOptions) -> list[Pass]:
    """Return the passes that the options name; UsageError for a name that no pass has."""
    chosen, names = options.fusions(), [fusion.name for fusion in PASSES]
    unknown = chosen - {"all", OMIT_MARKS, *names}
    if unknown:
        raise UsageError(f"--optimization.fuse: there is no pass '{min(unknown)}'",
                         f"there are {', '.join((OMIT_MARKS, *names))}; or all, or none")
    return [fusion for fusion in PASSES if fusion.name in chosen or "all" in chosen] if options.optimize else []


def fusion_named(name: str) -> Fusion | None:
    """Return the fusion of this name, None if no pass of this name makes fused commands."""
    return next((fusion for fusion in PASSES if fusion.name == name and isinstance(fusion, Fusion)), None)
