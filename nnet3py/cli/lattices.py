"""lattice-best-path and lattice-scale: what is done to lattices after decoding."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.command import kaldi_command
from nnet3py.cli.options import Options, option

_ACOUSTIC_SCALE = option("acoustic-scale", float, 1.0, "Factor of the acoustic costs")


@kaldi_command("lattice-best-path", usage="""
Find the best paths through lattices: their words and alignments.

Usage: lattice-best-path [options] <lattice-rspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 lattice-best-path --acoustic-scale=0.1 ark:lat.ark ark,t:words.txt ark:ali.ark
See also: nnet3-latgen-faster, lattice-scale, word-error-rate
""", arguments=(1, 3), options=[
    _ACOUSTIC_SCALE,
    option("lm-scale", float, 1.0, "Factor of the graph costs"),
    option("word-symbol-table", str, "", "words.txt, for showing words on standard error"),
])
def lattice_best_path(args: list[str], options: Options) -> int:
    """Write best paths; 1 if there was none."""
    from contextlib import ExitStack

    from nnet3py.decoding.lattices import LATTICES, best_path, sorted_lattice
    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.io.holders import INT_VECTOR
    from nnet3py.io.tables import SequentialReader, TableWriter

    table = SymbolTable.read(options.word_symbol_table) if options.word_symbol_table else None
    done = failed = frames = 0
    graph_cost = acoustic_cost = 0.0
    with ExitStack() as stack:
        writers = [stack.enter_context(TableWriter(name, INT_VECTOR)) if name else None for name in args[1:]]
        for key, lattice in stack.enter_context(SequentialReader(args[0], LATTICES)):
            path = best_path(sorted_lattice(lattice), options.acoustic_scale, options.lm_scale)
            if path is None:
                log.warning(f"Best-path failed for key {key}")
                failed += 1
                continue
            if table is not None:
                log.write_text(f"{key} {table.text(path.words)}\n")
            for writer, values in zip(writers, (path.words, path.alignment), strict=False):
                if writer is not None:
                    writer.write(key, values)
            done += 1
            frames += len(path.alignment)
            graph_cost += options.lm_scale * path.graph_cost
            acoustic_cost += options.acoustic_scale * path.acoustic_cost
    total, each = graph_cost + acoustic_cost, max(frames, 1)
    log.log(f"Overall cost per frame is {total / each:.6g} = {graph_cost / each:.6g} [graph] + "
            f"{acoustic_cost / each:.6g} [acoustic] over {frames} frames.")
    log.log(f"Done {done} lattices, failed for {failed}")
    return 0 if done else 1


@kaldi_command("lattice-scale", usage="""
Multiply the costs in lattices.

Usage: lattice-scale [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-scale --acoustic-scale=10.0 ark:lat.ark ark:scaled.ark
See also: nnet3-latgen-faster, lattice-best-path
""", arguments=(2, 2), options=[
    _ACOUSTIC_SCALE,
    option("inv-acoustic-scale", float, 1.0, "One over --acoustic-scale, instead of that"),
    option("lm-scale", float, 1.0, "Factor of the graph costs"),
])
def lattice_scale(args: list[str], options: Options) -> int:
    """Scale lattices; 1 if there was none."""
    from nnet3py.cli.copying import convert_table
    from nnet3py.decoding.lattices import LATTICES, scaled
    from nnet3py.errors import UsageError

    acoustic_scale = options.acoustic_scale
    if options.inv_acoustic_scale != 1.0:
        if acoustic_scale != 1.0 or options.inv_acoustic_scale == 0.0:
            raise UsageError("--inv-acoustic-scale must not be 0, and cannot be given with --acoustic-scale")
        acoustic_scale = 1.0 / options.inv_acoustic_scale
    done, _ = convert_table(args[0], args[1], LATTICES, LATTICES,
                            lambda key, lattice: scaled(lattice, options.lm_scale, acoustic_scale))
    log.log(f"Done {done} lattices.")
    return 0 if done else 1
