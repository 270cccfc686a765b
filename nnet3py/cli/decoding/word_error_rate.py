"""word-error-rate: how many words of a reference a hypothesis got wrong."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import FormatError


@kaldi_command("word-error-rate", group="Decoding", help="Compare recognized words with what was said.", usage="""
Compare recognized words with what was said, and print the word error rate and the sentence error rate as Kaldi's
compute-wer does. Both files have lines UTTERANCE WORD WORD ...; with --word-symbol-table, the hypothesis has numbers of
words, such as nnet3-latgen-faster writes.

Usage: word-error-rate [options] <reference-text> <hypothesis-text>
e.g.: word-error-rate data/test/text exp/decode/text
or, from numbers of words, with the errors of each utterance in a file of its own:
 word-error-rate --word-symbol-table=exp/graph/words.txt --details=exp/per_utt data/test/text exp/decode/words.txt
See also: nnet3-latgen-faster, lattice-best-path
""", arguments=(2, 2), options=[
    option("mode", str, "strict", "How an utterance without hypothesis counts: strict: an error that ends the command; "
           "all: without any words; present: left out", choices=("strict", "all", "present")),
    option("word-symbol-table", str, "", "The hypothesis has numbers, whose words are in this file"),
    option("details", str, "", "Write the words of both beside each other to this file, for each utterance"),
])
def word_error_rate(args: list[str], options: Options) -> int:
    """Print the rates."""
    import sys

    from nnet3py.decoding.symbols import SymbolTable, read_transcripts
    from nnet3py.decoding.word_errors import WordErrors, alignment_lines
    from nnet3py.io.streams import write_text

    reference, hypothesis = (read_transcripts(_file_name(name)) for name in args)
    if options.word_symbol_table:
        table = SymbolTable.read(options.word_symbol_table)
        hypothesis = {key: table.text(_numbers(key, words)).split() for key, words in hypothesis.items()}
    errors, lines = WordErrors(), []
    for key, words in reference.items():
        if key not in hypothesis:
            if options.mode == "strict":
                raise FormatError(f"utterance {key} is not in the hypothesis", path=args[1],
                                  hint="--mode=all counts it as empty, --mode=present leaves it out")
            errors.missing += 1
            if options.mode == "present":
                continue
        errors.add(words, hypothesis.get(key, []))
        lines.append(alignment_lines(key, words, hypothesis.get(key, [])) if options.details else "")
    unknown = hypothesis.keys() - reference.keys()
    if unknown:
        log.warning(f"{len(unknown)} utterances of the hypothesis are not in the reference, such as {min(unknown)}")
    if options.details:
        write_text(options.details, "".join(lines))
    sys.stdout.write(errors.report())
    return 0 if errors.sentences else 1


def _file_name(name: str) -> str:
    """The file that is meant: Kaldi's name for a table in text is understood, too."""
    kind, colon, rest = name.partition(":")
    return rest if colon and kind.split(",")[0] == "ark" else name


def _numbers(key: str, words: list[str]) -> list[int]:
    if not all(word.isdecimal() for word in words):
        raise FormatError(f"utterance {key}: with --word-symbol-table, the hypothesis must have numbers, not words")
    return [int(word) for word in words]
