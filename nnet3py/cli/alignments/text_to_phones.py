"""text-to-phones: phones of transcripts, for the phone language model of end-to-end training."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option


@kaldi_command("text-to-phones", group="Alignments and posteriors",
               help="Turn transcripts into phones, with random silences.", usage="""
Turn the words of transcripts into numbers of phones, with silences put in at random: the phone language model of
end-to-end chain training is made from them. <lexicon> has lines WORD PHONE ... or WORD PROBABILITY PHONE ..., <text>
lines UTTERANCE WORD ... Kaldi's recipes have a script text_to_phones.py.

Usage: text-to-phones [options] <lexicon> <text> <phone-seqs-wspecifier>
e.g.: text-to-phones --phones=phones.txt --silence-phone=SIL lexicon.txt text ark:- | \
chain-est-phone-lm --num-extra-lm-states=2000 ark:- phone_lm.fst
See also: chain-est-phone-lm
""", arguments=(3, 3), options=[
    option("phones", str, "", "phones.txt of the model (empty: --silence-phone is 1, the others follow in alphabetical "
           "order)"),
    option("silence-phone", str, "", "Phone of the silences (empty: there are none)"),
    option("edge-silprob", float, 0.8, "How probable silence is before the first word, and after the last"),
    option("between-silprob", float, 0.1, "How probable silence is between two words"),
    option("unknown-word", str, "",
           "Word that stands for words that the lexicon lacks (empty: their utterances are left out)"),
    option("srand", int, 0, "Seed of what is drawn at random"),
])
def text_to_phones(args: list[str], options: Options) -> int:
    """Write phones; 1 if there are none."""
    import numpy as np

    from nnet3py.decoding.lexicon import (
        RandomSilence,
        Silence,
        TextPhones,
        UnknownWordError,
        lexicon_phones,
        read_lexicon,
    )
    from nnet3py.decoding.symbols import SymbolTable, read_transcripts
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.io.tables import TableWriter

    lexicon = read_lexicon(args[0])
    phones = (SymbolTable.read(options.phones, "phone") if options.phones
              else lexicon_phones(lexicon, Silence(options.silence_phone)))
    silence = RandomSilence(options.silence_phone, options.edge_silprob, options.between_silprob)
    convert = TextPhones(lexicon, phones, silence, options.unknown_word, options.srand)
    num_done = num_failed = 0
    with TableWriter(args[2], INT_VECTOR) as writer:
        for key, words in read_transcripts(args[1]).items():
            try:
                sequence = convert(words)
            except UnknownWordError as error:
                log.warning(f"utterance {key}: {error}")
                num_failed += 1
                continue
            writer.write(key, np.array(sequence, dtype=np.int32))
            num_done += 1
    log.log(f"Wrote phones of {num_done} utterances, failed for {num_failed}")
    return 0 if num_done else 1
