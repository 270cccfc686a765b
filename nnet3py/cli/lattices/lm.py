"""lattice-lmrescore, lattice-lmrescore-const-arpa, lattice-lmrescore-pruned: other language models."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.lattices.options import ACOUSTIC_SCALE
from nnet3py.cli.lattices.rescoring import PRUNING, rescore_lattices, rescore_within_beam
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option

if TYPE_CHECKING:
    pass

_LM_SCALE = option("lm-scale", float, 1.0, "Factor of the model's costs; -1 takes those of a model off that the "
                   "lattice has")


@kaldi_command("lattice-lmrescore", group="Lattices", help="Add the costs of a language model.", usage="""
Add the costs of a language model, an FST that accepts words, to the graph costs of lattices. To exchange models, first
subtract the old one's costs with --lm-scale=-1.0.

Usage: lattice-lmrescore [options] <lattice-rspecifier> <lm-fst> <lattice-wspecifier>
e.g.:
 lattice-lmrescore --lm-scale=-1.0 ark:in.lats 'fstproject --project_output=true data/lang/G.fst|' ark:- | \\
   lattice-lmrescore --lm-scale=1.0 ark:- 'fstproject --project_output=true data/lang_big/G.fst|' ark:out.lats
See also: lattice-lmrescore-const-arpa, lattice-lmrescore-pruned, lattice-compose
""", arguments=(3, 3), options=[
    _LM_SCALE, option("num-states-cache", int, 50000, "No effect: results do not depend on it"),
])
def lattice_lmrescore(args: list[str], options: Options) -> int:
    """Rescore lattices; 1 if nothing was left of any."""
    from nnet3py.io.object_files import read_object
    from nnet3py.lattices.composition import Composer, rescored_with_fst
    from nnet3py.transducers.fst_text import read_fst

    model = Composer(read_object(args[1], read_fst))
    return rescore_lattices([args[0], args[2]], lambda lattice: rescored_with_fst(lattice, model, options.lm_scale))


@kaldi_command("lattice-lmrescore-const-arpa", group="Lattices",
               help="Add the costs of an n-gram model in const-ARPA form.", usage="""
Add the costs of an n-gram model in const-ARPA form to the graph costs of lattices.

Usage: lattice-lmrescore-const-arpa [options] <lattice-rspecifier> <const-arpa> <lattice-wspecifier>
e.g.:
 lattice-lmrescore-const-arpa --lm-scale=1.0 ark:no-lm.lats G.carpa ark:out.lats
See also: lattice-lmrescore, arpa-to-const-arpa
""", arguments=(3, 3), options=[_LM_SCALE])
def lattice_lmrescore_const_arpa(args: list[str], options: Options) -> int:
    """Rescore lattices; 1 if nothing was left of any."""
    from nnet3py.fst.const_arpa import ConstArpa
    from nnet3py.lattices.composition import rescored_with_const_arpa

    model = ConstArpa.read(args[1])
    return rescore_lattices([args[0], args[2]],
                            lambda lattice: rescored_with_const_arpa(lattice, model, options.lm_scale))


@kaldi_command("lattice-lmrescore-pruned", group="Lattices", help="Exchange the language model, within a beam.",
               usage="""
Exchange the language model of lattices: subtract the old one's costs and add the new one's, only for paths
within a beam. The lattices should be determinized; the results are not.

Usage: lattice-lmrescore-pruned [options] <old-lm> <new-lm> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-lmrescore-pruned --acoustic-scale=0.1 data/lang/G.fst data/lang_big/G.fst ark:in.lats ark:out.lats
 lattice-lmrescore-pruned --add-const-arpa=true data/lang/G.fst data/lang_big/G.carpa ark:in.lats ark:out.lats
See also: lattice-lmrescore, lattice-lmrescore-const-arpa
""", arguments=(4, 4), options=[
    _LM_SCALE, ACOUSTIC_SCALE, option("add-const-arpa", bool, False, "The new model is in const-ARPA form"), *PRUNING,
])
def lattice_lmrescore_pruned(args: list[str], options: Options) -> int:
    """Rescore lattices; 1 if nothing was left of any."""
    from nnet3py.lattices.pruned_composition import ConstArpaLm, FstLm, LmDifference, PrunedComposition

    log.log("Reading LMs...")
    new: Any = ConstArpaLm.read(args[1]) if options.add_const_arpa else FstLm.read(args[1])
    model = LmDifference(FstLm.read(args[0]), new, options.lm_scale)
    log.log("Done.")
    return rescore_within_beam(args[2:], lambda lattice, how: PrunedComposition(lattice, model, how).compose(), options)
