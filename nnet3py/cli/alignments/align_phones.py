"""make-mono-tree, phones-to-ali and convert-ali: alignments from phones and times, without training GMMs."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import FormatError, Nnet3Error, ShapeError

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.hmm.alignment import PhoneAligner

_REORDER = option("reorder", bool, True, "Write a state's self-loops after the transition that leaves it")
_PHONE_MAP = option("phone-map", str, "", "File with lines <old-phone> <new-phone>, numbers")


@kaldi_command("make-mono-tree", group="Trees and topologies",
               help="Make a tree without context, and its transition model.", usage="""
Make the tree in which a phone's pdfs depend on no other phone, and a transition model with the topology's
probabilities. Kaldi's gmm-init-mono makes the same tree, beside a GMM.

Usage:  make-mono-tree [options] <topology-in> <tree-out> <transition-model-out>
e.g.:
 make-mono-tree topo tree final.mdl
See also: phones-to-ali, nnet3-am-init, tree-info
""", arguments=(3, 3), options=[
    BINARY,
    option("shared-phones", str, "", "File whose lines are sets of phones (numbers) that share their pdfs"),
])
def make_mono_tree(args: list[str], options: Options) -> int:
    """Make a tree and a transition model."""
    from nnet3py.hmm.topology import HmmTopology
    from nnet3py.hmm.tree import initial_transition_model, monophone_tree
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.io.streams import read_integer_lines

    topology = read_object(args[0], HmmTopology.read)
    shared = read_integer_lines(options.shared_phones) if options.shared_phones else None
    tree = monophone_tree(topology, shared)
    model = initial_transition_model(tree, topology)
    write_object(args[1], tree.write, options.binary)
    write_object(args[2], model.write, options.binary)
    log.log(f"Made a tree with {tree.num_pdfs} pdfs for {len(topology.phones)} phones.")
    return 0


@kaldi_command("phones-to-ali", group="Alignments and posteriors", help="Turn phones with times into alignments.",
               usage="""
Turn phones with times into alignments, sequences of transition-ids: what ali-to-phones takes apart. The input has the
phone of every frame, where equal neighbors count as one phone, or (--lengths=true) pairs of phone and
number of frames. Frames of a phone are spread evenly over the states of its HMM.

Usage:  phones-to-ali [options] <model> <tree> <phones-rspecifier> <alignments-wspecifier>
e.g.:
 phones-to-ali final.mdl tree ark,t:phones.txt "ark:| gzip -c > ali.1.gz"
or, the inverse of ali-to-phones --write-lengths=true:
 phones-to-ali --lengths=true final.mdl tree ark:phones.ark ark:1.ali
See also: make-mono-tree, ali-to-phones, convert-ali
""", arguments=(4, 4), options=[
    option("lengths", bool, False, "The input has pairs of phone and number of frames"), _PHONE_MAP, _REORDER,
])
def phones_to_ali(args: list[str], options: Options) -> int:
    """Convert a table; 1 if nothing could be converted."""
    import numpy as np

    from nnet3py.formats.holders import INT_PAIR_VECTOR, INT_VECTOR
    from nnet3py.hmm.alignment import phones_of_frames

    aligner = _aligner(args[0], args[1], options.reorder)
    phone_map = read_phone_map(options.phone_map)

    def aligned(value: np.ndarray) -> np.ndarray:
        phones, lengths = (value[:, 0], value[:, 1]) if options.lengths else phones_of_frames(value)
        if options.lengths and np.any(lengths < 1):
            raise Nnet3Error(f"a phone has {lengths.min()} frames")
        numbers = phones.tolist()
        if phone_map is not None:
            if set(numbers) - set(phone_map):
                raise Nnet3Error(f"the map of phones lacks phone {min(set(numbers) - set(phone_map))}")
            numbers = [phone_map[phone] for phone in numbers]
        return aligner.align(numbers, lengths.tolist())

    done, failed = _convert(args[2], args[3], INT_PAIR_VECTOR if options.lengths else INT_VECTOR, aligned)
    log.log(f"Made alignments of {done} utterances, failed for {failed}")
    return 0 if done else 1


@kaldi_command("convert-ali", group="Alignments and posteriors", help="Turn alignments of one model into another's.",
               usage="""
Turn alignments of one model into alignments of another, with other trees, topologies or phones, or at a lower frame
rate. Where a phone's HMM or length changes, its frames are spread evenly over the states.

Usage:  convert-ali [options] <old-model> <new-model> <new-tree> <old-alignments-rspecifier> <new-alignments-wspecifier>
e.g.:
 convert-ali --frame-subsampling-factor=3 old/final.mdl new/final.mdl new/tree ark:old.ali ark:new.ali
See also: phones-to-ali, ali-to-phones
""", arguments=(5, 5), options=[
    option("frame-subsampling-factor", int, 1, "Keep one of this many frames"),
    option("repeat-frames", bool, False, "Interleave the alignments that begin at each frame, which keeps the length"),
    _PHONE_MAP, _REORDER,
])
def convert_ali(args: list[str], options: Options) -> int:
    """Convert a table; 1 if nothing could be converted."""
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object

    if options.frame_subsampling_factor < 1:
        raise OptionError(f"--frame-subsampling-factor must be above 0, found {options.frame_subsampling_factor}")
    old_model = read_object(args[0], TransitionModel.read)
    aligner = _aligner(args[1], args[2], options.reorder)
    phone_map = read_phone_map(options.phone_map)
    done, failed = _convert(args[3], args[4], INT_VECTOR, lambda ids: aligner.convert(
        old_model, ids, options.frame_subsampling_factor, options.repeat_frames, phone_map))
    log.log(f"Succeeded converting alignments for {done} files, failed for {failed}")
    return 0 if done else 1


def _aligner(model_name: str, tree_name: str, reorder: bool) -> PhoneAligner:
    from nnet3py.hmm.alignment import PhoneAligner
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object

    return PhoneAligner(read_object(model_name, TransitionModel.read), read_object(tree_name, ContextDependency.read),
                        reorder)


def _convert(rspecifier: str, wspecifier: str, source: Any,
             convert: Callable[[np.ndarray], np.ndarray]) -> tuple[int, int]:
    """Convert a table of ``source`` to integer vectors; what fails is warned of and left out."""
    from nnet3py.cli.process.copying import convert_table
    from nnet3py.formats.holders import INT_VECTOR

    def converted(key: str, value: np.ndarray) -> np.ndarray | None:
        try:
            return convert(value)
        except ShapeError:    # the alignments belong to another model altogether
            raise
        except Nnet3Error as error:
            log.warning(f"Could not convert the alignment of utterance {key}: {error}")
            return None

    return convert_table(rspecifier, wspecifier, source, INT_VECTOR, converted)


def read_phone_map(rxfilename: str) -> dict[int, int] | None:
    """Old phones and their new ones; None without a file."""
    if not rxfilename:
        return None
    from nnet3py.io.streams import read_integer_lines

    lines = read_integer_lines(rxfilename)
    if any(len(line) != 2 for line in lines) or len({line[0] for line in lines}) != len(lines):
        raise FormatError("expected lines of an old and a new phone, each old one once", path=rxfilename)
    return {old: new for old, new in lines}

