"""Options of networks that are computed chunk after chunk, as for a stream, and the computer made from their values."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.cli.decoding.decode_table import Computes
from nnet3py.cli.nnet.utterances import SIMPLE
from nnet3py.cli.process.option_groups import optimize_options, without
from nnet3py.cli.process.options import Options, declared
from nnet3py.recognition.options import LOOPED_SETTINGS

if TYPE_CHECKING:
    from nnet3py.acoustic_model import AcousticModel

LOOPED = (
    *declared(LOOPED_SETTINGS),
    *without(SIMPLE, "extra-left-context", "extra-right-context", "extra-right-context-final",
             *(setting.name for setting in LOOPED_SETTINGS)),
)


def looped_computer(model: AcousticModel, options: Options, device: str) -> Computes:
    """Return a computer of utterances, chunk after chunk as for a stream, with the options of the group ``LOOPED``."""
    from nnet3py.network.inference import prepare_for_test
    from nnet3py.runtime.looped import LoopedComputer

    return LoopedComputer(
        prepare_for_test(model.nnet), options.frames_per_chunk,
        extra_left_context_initial=options.extra_left_context_initial,
        frame_subsampling_factor=options.frame_subsampling_factor, acoustic_scale=options.acoustic_scale,
        priors=model.priors, optimize=optimize_options(options), device=device,
        debug=options["computation.debug"] or options.debug_computation,
        cache_dir=options["compiler.cache-dir"] or None)
