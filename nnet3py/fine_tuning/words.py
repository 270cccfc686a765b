"""Stage 3, the words: pronunciations of new ones, a lexicon, a language model and a graph with them."""
from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.decoding.grammar import grammar_words, read_transcripts
from nnet3py.decoding.graph import CHAIN_SELF_LOOP_SCALE, make_graph, write_graph, write_lang
from nnet3py.decoding.lang_folder import positioned
from nnet3py.decoding.lexicon import Pronunciation, Silence, make_lang, read_lexicon
from nnet3py.decoding.ngram import Ngram, ngram_fst
from nnet3py.decoding.ngram_mixture import mixture, read_ngram
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning.check import more_text, texts_of
from nnet3py.fine_tuning.plan import FineTuneOptions, WorkFolder
from nnet3py.fine_tuning.pronunciations import Pronunciations, pronounce
from nnet3py.fine_tuning.wider_graph import write_wider_graph
from nnet3py.fine_tuning.wider_hcl import why_not
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object
from nnet3py.io.streams import write_text
from nnet3py.recognition.model_folder import ModelFolder, read_model_folder

if TYPE_CHECKING:
    from nnet3py.decoding.lexicon import Lang

SILENCE_PROB = 0.5               # Kaldi's prepare_lang.sh
_ARPA = ("lm.arpa", "lm.arpa.gz", "G.arpa")
_UNPRONOUNCED = "none"


def run(work: WorkFolder, options: FineTuneOptions) -> None:
    """Write ``lang/``, and ``graph/`` if there are new words or new text. Raises Nnet3Error for a wrong --lexicon."""
    for path in (work.lang, work.graph):
        shutil.rmtree(path, ignore_errors=True)
    work.lang.mkdir(parents=True)
    folder = read_model_folder(options.model)
    texts = [text for part in ("train", "held_out") for text in read_transcripts(f"{work.data(part)}/text").values()]
    more = more_text(folder, options)
    if not (work.model / "lexicon.txt").is_file():
        shutil.copyfile(folder.words, work.lang / "words.txt")
        shutil.copyfile(work.model / "phones.txt", work.lang / "phones.txt")
        write_text(str(work.lang / "new_words.txt"), "")
        return
    lexicon = [(entry.word, entry.phones) for entry in read_lexicon(f"{work.model}/lexicon.txt", False)]
    vocabulary = {*grammar_words(SymbolTable.read(folder.words)), *(word for word, _ in lexicon)}
    can_grow = (work.model / "tree").is_file() and (_can_be_wider(work) if folder.is_lookahead else
                                                    _arpa(work) is not None)
    unknown = {word for text in (*texts, *more) for word in text} - vocabulary
    new = _new_words(unknown if can_grow else (), lexicon, options, work)
    if folder.is_lookahead:                # whose lexicon may have a million words, of which those of the data are used
        used = {word for text in texts_of(work) for word in text}
        lexicon = [(word, phones) for word, phones in lexicon if word in used]
    every = {*lexicon, *((word, phones) for word, its in new.items() for phones in its.phones)}
    lang = _write_lang(work, [Pronunciation(word, phones) for word, phones in sorted(every)])
    if can_grow and (new or more):
        learned = [*read_transcripts(f"{work.data('train')}/text").values(), *more]
        if folder.is_lookahead:
            write_wider_graph(work, folder, lang.phones, {word: its.phones for word, its in new.items()}, learned,
                              options)
        else:
            _write_graph(work, folder, lang, learned, options)


def _can_be_wider(work: WorkFolder) -> bool:
    """Whether the graph of a lookahead folder can get new words; notes of the model say why not."""
    return (work.model / "word_boundary.int").is_file() and not why_not(
        read_object(f"{work.model}/final.mdl", TransitionModel.read),
        read_object(f"{work.model}/tree", ContextDependency.read))


def _new_words(words: Iterable[str], lexicon: Sequence[tuple[str, tuple[str, ...]]], options: FineTuneOptions,
               work: WorkFolder) -> dict[str, Pronunciations]:
    """The pronunciations of new words, which are written to a file as well."""
    words = sorted(words)
    given = given_pronunciations(options)
    leave_out = options.unknown_words == "leave-out"
    new = pronounce([word for word in words if word in given] if leave_out else words, lexicon, given,
                    options.unknown_words == "spell", options.srand)
    lines = [f"{word} {new[word].source} {' '.join(phones)}\n" for word in new for phones in new[word].phones]
    without = [word for word in words if word not in new]
    write_text(str(work.lang / "new_words.txt"), "".join(sorted(lines)) + "".join(
        f"{word} {_UNPRONOUNCED}\n" for word in without))
    if new:
        log.log(f"{len(new)} new words, with pronunciations in {work.lang}/new_words.txt: look at them")
    if without:
        log.warning(f"{len(without)} words have no pronunciation, such as {without[0]}: utterances with them are set "
                    "aside; give --lexicon, or --unknown-words=spell")
    return new


def given_pronunciations(options: FineTuneOptions) -> dict[str, list[tuple[str, ...]]]:
    """The words of --lexicon with their phones."""
    given: dict[str, list[tuple[str, ...]]] = {}
    for entry in read_lexicon(options.lexicon) if options.lexicon else []:
        given.setdefault(entry.word, []).append(entry.phones)
    return given


def lang_of(lexicon: list[Pronunciation], phones: SymbolTable, silence: str) -> Lang:
    """The transducers of a lexicon without marks of positions. FormatError for a phone that the table lacks."""
    return make_lang(positioned(lexicon, phones), phones, Silence(silence, SILENCE_PROB if silence else 0.0))


def _write_lang(work: WorkFolder, lexicon: list[Pronunciation]) -> Lang:
    phones = SymbolTable.read(f"{work.model}/phones.txt", "phone")
    lang = lang_of(lexicon, phones, (work.model / "silence.txt").read_text(encoding="utf-8").strip())
    write_lang(work.lang, lang)
    write_text(f"{work.lang}/lexicon.txt", "".join(f"{entry.word} {' '.join(entry.phones)}\n"
                                                   for entry in positioned(lexicon, phones)))
    _copy_boundaries(work, work.lang)
    return lang


def _write_graph(work: WorkFolder, folder: ModelFolder, lang: Lang, texts: Sequence[Sequence[str]],
                 options: FineTuneOptions) -> None:
    """The language model and the graph. Nnet3Error if none can be made."""
    words = grammar_words(lang.words)
    vocabulary = set(words)
    arpa = _arpa(work)
    assert arpa is not None
    old = read_ngram(arpa, words)
    usable = [text for text in texts if vocabulary.issuperset(text)]
    if not usable:
        raise Nnet3Error("no sentence of the new text has only words with a pronunciation", "give --lexicon")
    new = Ngram.estimate(usable, min(options.lm_order, old.order), words)
    weight = options.lm_weight
    model = mixture([(old, 1.0 - weight), (new, weight)])
    model.write(f"{work.lang}/lm.arpa")
    tree = read_object(f"{work.model}/tree", ContextDependency.read)
    transitions = read_object(f"{work.model}/final.mdl", TransitionModel.read)
    graph = make_graph(lang, ngram_fst(model, lang.words), tree, transitions, self_loop_scale=CHAIN_SELF_LOOP_SCALE)
    write_graph(work.graph, graph, lang, transitions)
    _copy_boundaries(work, work.graph)
    if folder.align_lexicon:
        _write_align_lexicon(work, lang)
    log.log(f"A new graph of {graph.num_states} states and {graph.num_arcs} arcs, with {len(words)} words")


def _arpa(work: WorkFolder) -> str | None:
    path = next((work.model / name for name in _ARPA if (work.model / name).is_file()), None)
    return None if path is None else f"gunzip -c {quote(str(path))} |" if path.suffix == ".gz" else str(path)


def _copy_boundaries(work: WorkFolder, target: Path) -> None:
    source = work.model / "word_boundary.int"
    if source.is_file():
        (target / "phones").mkdir(exist_ok=True)
        shutil.copyfile(source, target / "phones" / "word_boundary.int")


def _write_align_lexicon(work: WorkFolder, lang: Lang) -> None:
    """For aligning words where phones do not say their position: word, word, phones; silence alone is 0."""
    lines = [f"0 0 {lang.phones[lang.silence.phone]}\n"] if lang.silence.phone else []
    for entry in read_lexicon(f"{work.lang}/lexicon.txt", False):
        word = lang.words[entry.word]
        lines.append(f"{word} {word} {' '.join(str(lang.phones[phone]) for phone in entry.phones)}\n")
    write_text(f"{work.graph}/phones/align_lexicon.int", "".join(lines))
