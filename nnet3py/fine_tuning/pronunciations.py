"""How new words are pronounced: by a given lexicon, by what is learned from the model's own, or by spelling."""
from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning.grapheme_model import GraphemeModel, Phones

logger = logging.getLogger(__name__)

GIVEN, LEARNED, SPELLED = "given", "learned", "spelled"
LEAST_WORDS = 50              # of a lexicon from which pronouncing can be learned
_COUNT, _SHARE = 3, 0.1      # so many of the likeliest pronunciations, if they are so likely

# Letters with the phones that they stand for in most languages with Latin script, by three ways of naming phones:
# ARPAbet, X-SAMPA and espeak's, IPA. The one that the model has most names of is taken.
_RULES = tuple(dict(rule.split("=") for rule in rules.split()) for rules in (
    "ch=CH sh=SH th=TH ng=NG ee=IY oo=UW ph=F ck=K qu=K+W a=AE b=B c=K d=D e=EH f=F g=G h=HH i=IH j=JH k=K "
    "l=L m=M n=N o=AA p=P q=K r=R s=S t=T u=AH v=V w=W x=K+S y=Y z=Z",
    "ch=tS sh=S th=T ng=N ee=i: oo=u: ph=f ck=k qu=k+w a=a b=b c=k d=d e=E f=f g=g h=h i=I j=dZ k=k l=l m=m "
    "n=n o=0 p=p q=k r=r s=s t=t u=V v=v w=w x=k+s y=j z=z",
    "ch=tʃ sh=ʃ th=θ ng=ŋ ee=i oo=u ph=f ck=k qu=k+w a=a b=b c=k d=d e=e f=f g=g h=h i=i j=dʒ k=k l=l m=m n=n "
    "o=o p=p q=k r=r s=s t=t u=u v=v w=w x=k+s y=j z=z"))
_STRESS = re.compile(r"(?<=.)[0-2]$")


class Pronunciations(NamedTuple):
    """The pronunciations of a new word, and where they come from: given, learned or spelled."""

    source: str
    phones: list[Phones]


def pronounce(words: Iterable[str], lexicon: Sequence[tuple[str, Phones]], given: Mapping[str, Sequence[Phones]],
              may_spell: bool, seed: int = 0) -> dict[str, Pronunciations]:
    """The pronunciations of new words; words without one are not in the result.

    Parameters
    ----------
    lexicon : of the model: words and phones without marks of their position
    given : pronunciations that the user gives
    may_spell : whether letters may stand for phones where nothing else helps

    Raises Nnet3Error for a given pronunciation with a phone that the model's lexicon lacks.
    """
    phones = {phone for _, its_phones in lexicon for phone in its_phones}
    _check_given(given, phones)
    results, left = {}, []
    for word in words:
        if word in given:
            results[word] = Pronunciations(GIVEN, list(given[word]))
        else:
            left.append(word)
    model = _learned(lexicon, seed) if left else None
    for word in left:
        likely = model.pronounce(word, _COUNT) if model is not None else []
        if likely:
            results[word] = Pronunciations(LEARNED, [
                guess.phones for guess in likely if guess is likely[0] or guess.probability >= _SHARE])
        elif may_spell and (spelled := spell(word, phones)):
            results[word] = Pronunciations(SPELLED, [spelled])
    return results


def _check_given(given: Mapping[str, Sequence[Phones]], phones: set[str]) -> None:
    for word, its in given.items():
        unknown = [phone for pronunciation in its for phone in pronunciation if phone not in phones]
        if unknown and phones:
            raise Nnet3Error(f"--lexicon has the phone {unknown[0]} in {word}, which no word of the model has",
                             f"its phones are {' '.join(sorted(phones))}")


def _learned(lexicon: Sequence[tuple[str, Phones]], seed: int) -> GraphemeModel | None:
    words = [(word, phones) for word, phones in lexicon if word[:1] not in "<[#!"]
    if len({word for word, _ in words}) < LEAST_WORDS:
        return None
    try:
        return GraphemeModel.estimate(words, seed=seed)
    except Nnet3Error as error:
        logger.warning("nothing is learned of the lexicon: %s", error)
        return None


def spell(word: str, phones: set[str]) -> Phones:
    """A pronunciation by the letters of a word in Latin script; empty if the phones have other names."""
    bare = {_STRESS.sub("", phone): phone for phone in sorted(phones, reverse=True)}
    bare.update((phone, phone) for phone in phones)
    rules = max(_RULES, key=lambda rules: sum(name in bare for name in rules.values()))
    spelling: list[str] = []
    place, word = 0, word.casefold()
    while place < len(word):
        for length in (2, 1):
            names = rules.get(word[place:place + length], "").split("+")
            if all(name in bare for name in names):
                spelling += [bare[name] for name in names]
                place += length
                break
        else:
            if word[place].isalpha():
                return ()
            place += 1                          # an apostrophe
    return tuple(spelling)
