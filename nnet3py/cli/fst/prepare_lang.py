"""prepare-lang: a lang folder from a lexicon."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import OptionError, Options, option


@kaldi_command("prepare-lang", group="Graphs", help="Make a lang folder from a lexicon.", usage="""
Make a lang folder from a lexicon: words.txt, phones.txt, L.fst and L_disambig.fst, the topology topo, and in phones/
the lists from which trees are built. Kaldi has a script utils/prepare_lang.sh, which can do more, such as probabilities
of silence for each word.

With --position-dependent-phones=true each phone has a name for the beginning, the inside and the end of a word, and one
for a word of one phone, such as AH_B, AH_I, AH_E and AH_S, which share their tree's root; phones/word_boundary.int says
which is which, so that the times of words can be found in lattices.

<lexicon> has lines WORD PHONE ... or WORD PROBABILITY PHONE ...

Usage: prepare-lang [options] <lexicon> <lang-dir>
e.g.: prepare-lang --silence-phones=SIL,SPN '--unknown-word=<UNK>' lexicon.txt data/lang
See also: make-graph, compile-train-graphs, text-to-phones
""", arguments=(2, 2), options=[
    option("silence-phones", str, "SIL", "Phones that are not speech, with commas between; the first one may stand "
           "before, between and after words"),
    option("silence-prob", float, 0.5, "How probable that phone is there"),
    option("unknown-word", str, "", "Word of the lexicon that stands for words that it lacks (empty: none)"),
    option("position-dependent-phones", bool, False, "Phones have other names at the beginnings and ends of words"),
    option("chain", bool, True, "Topology of chain models: one state per phone"),
    option("nonterminals", str, "", "File of names such as #nonterm:contacts, one per line, for grammars whose parts "
           "are put together while decoding (empty: none)"),
])
def prepare_lang(args: list[str], options: Options) -> int:
    """Make the folder."""
    from nnet3py.decoding.graph import write_lang
    from nnet3py.decoding.lexicon import (
        Silence,
        lexicon_phones,
        make_lang,
        phone_forms,
        read_lexicon,
        with_positions,
        write_phone_lists,
    )
    from nnet3py.decoding.symbols import SymbolTable, read_text
    from nnet3py.hmm.topology import chain_topology, left_to_right_topology
    from nnet3py.io.object_files import write_object
    from nnet3py.io.streams import write_text

    lexicon = read_lexicon(args[0])
    silences = [phone for phone in options.silence_phones.split(",") if phone]
    if not silences:
        raise OptionError("--silence-phones must name one phone at least, such as SIL")
    others = [name for _, name in sorted(lexicon_phones(lexicon, Silence(silences[0])).names.items())
              if name not in silences and name != "<eps>"]
    if not others:
        raise OptionError(f"all phones of {args[0]} are among --silence-phones={options.silence_phones}")
    positions = options.position_dependent_phones
    forms = [sum((phone_forms(phone, members is silences, positions) for phone in members), [])
             for members in (silences, others)]
    if positions:
        lexicon = with_positions(lexicon)
    nonterminals = read_text(options.nonterminals).split() if options.nonterminals else []
    before = [phone for phone in sum(forms, []) if phone == silences[0] or phone[-2:] in ("_E", "_S")]
    lang = make_lang(lexicon, SymbolTable.of(sum(forms, []), "phone"), Silence(silences[0], options.silence_prob),
                     nonterminals, before if positions else None)
    if options.unknown_word and options.unknown_word not in lang.words:
        raise OptionError(f"--unknown-word={options.unknown_word} is not in {args[0]}")
    write_lang(args[1], lang)
    numbers = [[lang.phones[phone] for phone in phones] for phones in forms]
    topology = chain_topology(sum(numbers, [])) if options.chain else left_to_right_topology(numbers[1], numbers[0])
    write_object(f"{args[1]}/topo", topology.write, binary=False)
    write_phone_lists(args[1], lang.phones, silences, others, positions)
    write_text(f"{args[1]}/lexicon.txt", "".join(
        " ".join([entry.word,
                  *([f"{entry.probability:g}"] if any(other.probability < 1.0 for other in lexicon) else []),
                  *entry.phones]) + "\n" for entry in lexicon))
    if options.unknown_word:
        write_text(f"{args[1]}/oov.txt", f"{options.unknown_word}\n")
        write_text(f"{args[1]}/oov.int", f"{lang.words[options.unknown_word]}\n")
    log.log(f"Wrote {args[1]}, of {len(lexicon)} pronunciations and {len(sum(forms, []))} phones")
    return 0
