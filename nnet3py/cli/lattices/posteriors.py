"""lattice-to-post, lattice-arc-post: posterior probabilities."""
from __future__ import annotations

from contextlib import ExitStack

from nnet3py import log
from nnet3py.cli.lattices.options import ACOUSTIC_SCALE, LM_SCALE, log_done, per, scales_of, status
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import within


@kaldi_command("lattice-to-post", group="Lattices", help="Compute how probable each transition-id is in each frame.",
               usage="""
Compute how probable each transition-id is in each frame, by the forward-backward algorithm on lattices.

Usage: lattice-to-post [options] <lattice-rspecifier> <posteriors-wspecifier> [<loglikes-wspecifier>]
e.g.:
 lattice-to-post --acoustic-scale=0.1 ark:1.lats ark:1.post
See also: lattice-arc-post, post-to-weights, ali-to-post
""", arguments=(2, 3), options=[ACOUSTIC_SCALE, LM_SCALE])
def lattice_to_post(args: list[str], options: Options) -> int:
    """Write posteriors; 1 if there was no lattice."""
    from nnet3py.formats.holders import FLOAT, POSTERIOR
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.lattices.forward_backward import frame_posteriors
    from nnet3py.lattices.scaling import scaled
    from nnet3py.transducers.lattice import LATTICES

    scales = scales_of(options)
    done = frames = 0
    total = acoustic = 0.0
    with ExitStack() as stack:
        posteriors = stack.enter_context(TableWriter(args[1], POSTERIOR))
        likelihoods = stack.enter_context(TableWriter(args[2], FLOAT)) if args[2:] and args[2] else None
        for key, lattice in stack.enter_context(SequentialReader(args[0], LATTICES)):
            with within(f"key {key}"):
                result = frame_posteriors(scaled(lattice, scales))
            posteriors.write(key, result.posterior)
            if likelihoods is not None:
                likelihoods.write(key, result.total)
            done, frames = done + 1, frames + len(result.posterior)
            total, acoustic = total + result.total, acoustic + result.acoustic
    log.log(f"Overall average log-like/frame is {per(total, frames):.6g} over {frames} frames.  Average acoustic "
            f"like/frame is {per(acoustic, frames):.6g}")
    return log_done(done)


@kaldi_command("lattice-arc-post", group="Lattices", help="Print arcs and how probable they are.", usage="""
Print the arcs of lattices with their posterior probabilities: lines of utterance, first frame, number of frames,
probability, word, and with a model the phones, with tabs between. The lattices should be aligned with words.

Usage: lattice-arc-post [options] [<transition-model>] <lattice-rspecifier> <output-wxfilename>
e.g.:
 lattice-arc-post --acoustic-scale=0.1 final.mdl ark:1.lats 1.post
See also: lattice-to-post, lattice-to-ctm-conf, lattice-align-words
""", arguments=(2, 3), options=[
    ACOUSTIC_SCALE, LM_SCALE,
    option("print-alignment", bool, False, "Print the transition-ids, before the phones"),
    option("min-post", float, 0.0001, "Leave out arcs of a smaller probability"),
])
def lattice_arc_post(args: list[str], options: Options) -> int:
    """Print arcs; 1 if there was no lattice."""
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import open_output
    from nnet3py.io.tables import SequentialReader
    from nnet3py.lattices.forward_backward import arc_lines
    from nnet3py.lattices.scaling import scaled
    from nnet3py.lattices.states import LatticeError
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    model = read_object(args[0], TransitionModel.read) if len(args) == 3 else None
    scales = scales_of(options)
    done = errors = lines = 0
    with open_output(args[-1]) as stream, SequentialReader(args[-2], COMPACT_LATTICES) as reader:
        for key, lattice in reader:
            try:
                arcs = arc_lines(key, scaled(lattice, scales), model, options.print_alignment, options.min_post)
            except LatticeError as error:
                log.warning(f"For utterance {key}: {error}")
                errors += 1
                continue
            stream.write("".join(arcs).encode("utf-8", "surrogateescape"))
            done, lines = done + 1, lines + len(arcs)
    log.log(f"Printed posteriors for {done} lattices ({errors} with errors); on average printed "
            f"{int(per(lines, done)) if done else 0} posteriors per lattice.")
    return status(done)
