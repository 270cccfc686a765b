"""lattice-oracle: how good the best of a lattice's paths is."""
from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.lattices.options import per
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import within

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.decoding.symbols import SymbolTable


@kaldi_command("lattice-oracle", group="Lattices", help="Find the words nearest to what was said.", usage="""
Find the words of lattices that are nearest to what was said, and print how many errors they have.

Usage: lattice-oracle [options] <lattice-rspecifier> <reference-rspecifier> <words-wspecifier> [<edits-wspecifier>]
e.g.:
 lattice-oracle --word-symbol-table=words.txt ark:1.lats "ark:sym2int.pl -f 2- words.txt text|" ark,t:oracle.txt
See also: lattice-best-path, compute-wer, lattice-depth
""", arguments=(3, 4), options=[
    option("word-symbol-table", str, "", "words.txt, for showing words on standard error"),
    option("wildcard-symbols", str, "", "Numbers of words that do not count, with colons between them"),
    option("wildcard-symbols-list", str, "", "The same in a file, one on each line; deprecated"),
    option("write-lattices", str, "", "Write the nearest paths, as lattices, to this table"),
])
def lattice_oracle(args: list[str], options: Options) -> int:
    """Write words; always 0, as in Kaldi."""
    import numpy as np

    from nnet3py.cli.process.lists import int_list
    from nnet3py.decoding.symbols import SymbolTable, read_text
    from nnet3py.formats.holders import INT32, INT_VECTOR
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter
    from nnet3py.lattices.states import LatticeError
    from nnet3py.lattices.word_errors import oracle
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    text = options.wildcard_symbols
    if options.wildcard_symbols_list:
        text = ":".join(read_text(options.wildcard_symbols_list).split())
    wildcards = np.array(int_list(text, "wildcard-symbols"), dtype=np.int32)
    table = SymbolTable.read(options.word_symbol_table) if options.word_symbol_table else None
    done = missing = words = 0
    counts = np.zeros(3, dtype=np.int64)
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(args[2], INT_VECTOR))
        edits = stack.enter_context(TableWriter(args[3], INT32)) if args[3:] and args[3] else None
        paths = (stack.enter_context(TableWriter(options.write_lattices, COMPACT_LATTICES))
                 if options.write_lattices else None)
        references = stack.enter_context(RandomAccessReader(args[1], INT_VECTOR))
        for key, lattice in stack.enter_context(SequentialReader(args[0], COMPACT_LATTICES)):
            log.write_text(f"Lattice {key} read.\n")
            if key not in references:
                log.warning(f"No reference present for utterance {key}")
                missing += 1
                continue
            reference = references[key]
            try:
                with within(f"key {key}"):
                    best = oracle(lattice, reference, wildcards)
            except LatticeError as error:
                log.warning(f"Best-path failed: {error}")
                continue
            length = int(np.count_nonzero((reference != 0) & ~np.isin(reference, wildcards)))
            log.log(f"%WER {per(100.0 * best.errors, length):.6g} [ {best.errors} / {length}, {best.insertions} "
                    f"insertions, {best.deletions} deletions, {best.substitutions} sub ]")
            log.log(f"For utterance {key}, best cost {best.errors}")
            _show(table, key, "oracle", best.words)
            _show(table, key, "reference", reference)
            writer.write(key, best.words)
            if edits is not None:
                edits.write(key, best.errors)
            if paths is not None:
                paths.write(key, best.path)
            done, words = done + 1, words + length
            counts += best.insertions, best.deletions, best.substitutions
    log.log(f"Overall %WER {per(100.0 * counts.sum(), words):.6g} [ {counts.sum()} / {words}, {counts[0]} insertions, "
            f"{counts[1]} deletions, {counts[2]} substitutions ]")
    log.log(f"Scored {done} lattices, {missing} not present in ref.")
    return 0


def _show(table: SymbolTable | None, key: str, what: str, words: np.ndarray) -> None:
    """Write words to standard error, if their names are known."""
    if table is not None:
        log.write_text(f"{key} ({what}) {''.join(table.text([word]) + ' ' for word in words)}\n")
