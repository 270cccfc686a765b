#!/usr/bin/env python3
"""Make a corpus of read sentences with espeak-ng: sound, transcripts, speakers, a lexicon and text for language models.

    local/make_corpus.py --out corpus
    local/make_corpus.py --out small --num-sentences 60 --num-text 500

Sentences come from a small grammar over the 1,000 words of local/words.txt, in which each noun prefers some adjectives
and each verb some objects, so that longer n-grams know more. The last two of the eight voices are in test/ only; dev/
has other sentences than train/, of the same voices. The same --seed makes the same sentences; the same version of
espeak-ng, which must be installed (Debian: apt-get install espeak-ng), the same sound.

Writes train/, dev/ and test/ as Kaldi's data directories, lexicon.txt, and lm.txt with --num-text more sentences.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "utils"))
from synthetic_speech import RATE, espeak, need_program, phones, read_sound, write_data  # noqa: E402

VOICES = ("en-us+m3", "en-us+f2", "en-us+m7", "en-us+f4", "en-gb+m1", "en-gb+f3", "en-us+m2", "en-us+f5")
NUM_TEST_VOICES = 2
DEV_SHARE, TEST_SHARE = 0.075, 0.1       # of all sentences
SPEED, PITCH = (165, 215), (30, 70)      # words a minute; espeak-ng's scale
PAUSE, NOISE_DB = (0.1, 0.3), (-45.0, -35.0)             # seconds at either end; noise below the loudest sample
LOUDNESS = 0.7                           # so that no sample is clipped
CARRIER = ("see", "book")                # words around those that sound otherwise in a sentence
REDUCED = ("det", "prep", "aux", "pron", "link")


class Grammar:
    """Random sentences over words by class; which words go together is drawn from the seed, too."""

    def __init__(self, words: dict[str, list[str]], seed: int) -> None:
        self.words = {kind: list(members) for kind, members in words.items()}
        self.rng = rng = np.random.default_rng(seed)
        self.cumulative: dict[str, np.ndarray] = {}
        for kind, members in self.words.items():
            rng.shuffle(members)
            self.cumulative[kind] = self._cumulative(len(members))
        self.adjectives = {noun: self._some("adj", 4) for noun in self.words["noun"]}
        self.objects = {verb: self._some("noun", 8) for verb in self.words["verb"]}
        self.places = {verb: self._some("noun", 8) for verb in self.words["move"]}

    @staticmethod
    def _cumulative(count: int) -> np.ndarray:
        """Of probabilities that fall with the rank, after Zipf, but flatter."""
        weights = (np.arange(count) + 5.0) ** -0.7
        return np.cumsum(weights / weights.sum())

    def _some(self, kind: str, count: int) -> list[str]:
        return [self.draw(kind) for _ in range(count)]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return bool(self.rng.random() < probability)

    def draw(self, kind: str) -> str:
        """A word of a class."""
        place = int(np.searchsorted(self.cumulative[kind], self.rng.random()))
        return self.words[kind][min(place, len(self.words[kind]) - 1)]

    def one_of(self, *words: str) -> str:
        """One of these words."""
        return words[int(self.rng.integers(len(words)))]

    def noun_phrase(self, preferred: list[str] | None = None) -> list[str]:
        """Determiner, perhaps an adjective, and a noun, mostly one of those preferred."""
        noun = self.one_of(*preferred) if preferred and self.chance(0.75) else self.draw("noun")
        phrase = [self.draw("det")]
        if self.chance(0.45):
            phrase.append(self.one_of(*self.adjectives[noun]) if self.chance(0.75) else self.draw("adj"))
        phrase.append(noun)
        if self.chance(0.06):
            phrase += ["of", "the", self.draw("noun")]
        return phrase

    def subject(self) -> list[str]:
        """Who or what does something."""
        kind = self.rng.random()
        return [self.draw("name")] if kind < 0.35 else [self.draw("pron")] if kind < 0.5 else self.noun_phrase()

    def predicate(self) -> list[str]:
        """What is done or said of the subject."""
        kind = self.rng.random()
        if kind < 0.5:
            verb = self.draw("verb")
            words = [verb, *self.noun_phrase(self.objects[verb])]
            return words + ([self.one_of("for", "with"), self.draw("name")] if self.chance(0.15) else [])
        if kind < 0.85:
            verb = self.draw("move")
            return [verb, self.draw("prep"), *self.noun_phrase(self.places[verb])]
        if kind < 0.93:
            return [self.one_of("is", "was", "has been"), *(["very"] if self.chance(0.5) else []), self.draw("adj")]
        return [self.one_of("was", "is", "was not", "will not"), "from", "the", self.draw("noun"), "to", "the",
                self.draw("noun")] if self.chance(0.3) else ["was", "in", "the", self.draw("noun")]

    def when(self) -> list[str]:
        """When something happened; mostly nothing."""
        kind = self.rng.random()
        return ([self.draw("time")] if kind < 0.2 else ["on", self.draw("day")] if kind < 0.3 else
                ["at", self.draw("number"), *([self.draw("number")] if self.chance(0.3) else [])] if kind < 0.42
                else [])

    def sentence(self) -> list[str]:
        """A sentence."""
        kind = self.rng.random()
        if kind < 0.08:
            words = ["there", "was", *self.noun_phrase(), self.draw("prep"), *self.noun_phrase()]
        elif kind < 0.16:
            words = [self.draw("name"), self.draw("say"), *self.subject(), *self.predicate()]
        elif kind < 0.2:
            words = [*self.noun_phrase(), "who", *self.predicate(), "was", self.draw("adj")]
        else:
            words = [*self.subject(), *self.predicate(), *self.when()]
            if self.chance(0.1):
                words += [self.draw("link"), *self.subject(), *self.predicate()]
        return " ".join(words).split()

    def different(self, count: int, seen: set[tuple[str, ...]]) -> Iterator[list[str]]:
        """``count`` sentences that are not in ``seen``, to which they are added."""
        while count:
            words = self.sentence()
            if tuple(words) not in seen:
                seen.add(tuple(words))
                count -= 1
                yield words


def read_words(path: Path) -> dict[str, list[str]]:
    """Words by class; exits with a message for a word that stands twice."""
    words: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        kind, *members = line.split() if not line.startswith("#") else [""]
        if kind:
            words.setdefault(kind, []).extend(members)
    every = [word for members in words.values() for word in members]
    twice = sorted({word for word in every if every.count(word) > 1})
    if twice:
        sys.exit(f"make_corpus.py: {path} has {twice[0]} more than once")
    return words


def lexicon(words: dict[str, list[str]]) -> list[str]:
    """Lines WORD PHONE ...; words such as determiners also as they sound between others."""
    every = sorted(word for members in words.values() for word in members)
    small = sorted(word for kind in REDUCED for word in words[kind])
    entries = [(word, sum(found, [])) for word, found in zip(every, phones(every), strict=True)]
    before, behind = CARRIER
    for word, found in zip(small, phones([f"{before} {word} {behind}" for word in small]), strict=True):
        if len(found) == 3:
            entries.append((word, found[1]))
    return sorted({f"{word} {' '.join(its_phones)}" for word, its_phones in entries})


def speak(words: list[str], voice: str, rng: np.random.Generator, scratch: Path) -> np.ndarray:
    """float32 (samples,) at RATE: a sentence between pauses, with a little noise."""
    espeak("-v", voice, "-s", str(rng.integers(*SPEED)), "-p", str(rng.integers(*PITCH)), "-w", str(scratch),
           text=" ".join(words))
    sound = LOUDNESS * read_sound(scratch)
    begin, end = (np.zeros(int(rng.uniform(*PAUSE) * RATE), np.float32) for _ in range(2))
    sound = np.concatenate([begin, sound, end])
    level = np.abs(sound).max() * 10 ** (rng.uniform(*NOISE_DB) / 20)
    return (sound + level * rng.standard_normal(len(sound))).astype(np.float32)


def parts(num_sentences: int) -> list[tuple[str, int]]:
    """(part, voice) of each sentence: those of dev and test first, voices in turn."""
    num_test, num_dev = round(TEST_SHARE * num_sentences), round(DEV_SHARE * num_sentences)
    others = len(VOICES) - NUM_TEST_VOICES
    return [*(("test", others + i % NUM_TEST_VOICES) for i in range(num_test)),
            *(("dev", i % others) for i in range(num_dev)),
            *(("train", i % others) for i in range(num_sentences - num_test - num_dev))]


def write_corpus(out: Path, sentences: list[list[str]], seed: int) -> None:
    """Speak all sentences; write the data directories."""
    places = parts(len(sentences))
    scratch = out / "sentence.wav"
    for part in ("train", "dev", "test"):
        keyed = sorted((f"{VOICES[voice].replace('+', '-')}-{number:05d}", voice, number)
                       for number, (its_part, voice) in enumerate(places) if its_part == part)
        write_data(out / part, (
            (key, VOICES[voice].replace("+", "-"), " ".join(sentences[number]),
             speak(sentences[number], VOICES[voice], np.random.default_rng([seed, number]), scratch))
            for key, voice, number in keyed))
    scratch.unlink(missing_ok=True)


def main() -> None:
    """Make the corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    parser.add_argument("--num-sentences", type=int, default=2000, help="spoken ones, of all parts together")
    parser.add_argument("--num-text", type=int, default=40000, help="sentences for language models")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    need_program("espeak-ng")

    words = read_words(Path(__file__).with_name("words.txt"))
    args.out.mkdir(parents=True, exist_ok=True)
    grammar, spoken = Grammar(words, args.seed), set()
    sentences = list(grammar.different(args.num_sentences, spoken))
    # Text for language models shares no sentence with what is spoken, so that test sentences are new to them.
    text = list(grammar.different(args.num_text, spoken))
    (args.out / "lm.txt").write_text("".join(" ".join(sentence) + "\n" for sentence in text))
    (args.out / "lexicon.txt").write_text("".join(line + "\n" for line in lexicon(words)))
    write_corpus(args.out, sentences, args.seed)
    counts = [sum(part == name for part, _ in parts(args.num_sentences)) for name in ("train", "dev", "test")]
    print(f"make_corpus.py: {args.out}: {counts[0]} sentences to train on, {counts[1]} in dev, {counts[2]} in test; "
          f"{sum(map(len, words.values()))} words, {args.num_text} sentences of text")


if __name__ == "__main__":
    main()
