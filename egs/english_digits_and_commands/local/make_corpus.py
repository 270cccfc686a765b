#!/usr/bin/env python3
"""Make a corpus of spoken digits, dates, commands and simple sentences: sound, transcripts, a lexicon, text.

    local/make_corpus.py --out corpus
    local/make_corpus.py --out small --num-speakers 6 --num-sentences 10 --num-text 500 --flite false

Sentences come from the grammar in local/grammar.txt. espeak-ng speaks with many voices, flite with a few that were cut
from recordings of people; speed, pitch and the length of the vocal tract change from speaker to speaker. Rooms,
microphones and noise are added. dev/ has other speakers than train/, test/ and flite/ have other voices, too. The same
--seed and the same versions of espeak-ng and flite (Debian: apt-get install espeak-ng flite) make the same corpus.

Writes train/, dev/, test/ and flite/ as Kaldi's data directories, start/ with a few voices that are easy to understand,
for the flat start, lexicon.txt, and lm.txt with --num-text sentences.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "utils"))
from synthetic_speech import (  # noqa: E402
    RATE,
    espeak,
    flite,
    impulse_response,
    need_program,
    noise,
    phones,
    read_sound,
    write_data,
)

ACCENTS = ("en-us", "en-us", "en-us", "en-gb", "en-gb", "en-gb-x-rp", "en-us-nyc", "en-gb-scotland", "en-029",
           "en-gb-x-gbclan", "en-gb-x-gbcwmd")
VARIANTS = ("m1", "m2", "m3", "m4", "m5", "m6", "m8", "f1", "f2", "f3", "f4", "klatt", "klatt2", "klatt3", "klatt4",
            "adam", "Alex", "Alicia", "Andy", "Annie", "anika", "antonio", "aunty", "belinda", "benjamin", "boris",
            "david", "Diogo", "ed", "edward", "Gene", "grandma", "Henrique", "Hugo", "john", "Lee", "linda", "Marco",
            "max", "miguel", "pablo", "paul", "pedro", "quincy", "rob", "sandro", "shelby", "steph", "travis", "victor",
            "zac")
TEST_VARIANTS = ("m7", "f5", "Andrea", "michael", "Denis", "steph2", "robert", "mike", "klatt5", "marcelo", "caleb",
                 "norbert")
FLITE_VOICES, FLITE_TEST_VOICES = ("slt", "awb", "slt", "kal16"), ("rms",)
START_VOICES = ("en-us+m3", "en-us+f2", "en-us+f4", "en-gb+m1", "en-gb+f3")
CLEAN_PARTS = ("start", "clean")         # without rooms, microphones, and noise
FLITE_SHARE = 0.35                       # of the speakers
LEXICON_VOICES = ("en-us", "en-gb")
CARRIER = ("see", "book")                # words around those that sound otherwise in a sentence
REDUCED = ("a an and are at can could do for from have he i in is it my not of on she so some that the they this to "
           "was we would you your").split()
SPOKEN = {"A": "eigh"}                   # a letter that would be taken for a word
SPEED, STRETCH, PITCH = (135, 205), (0.85, 1.25), (15, 85)     # espeak-ng's words a minute; flite's; espeak-ng's scale
WARP = (0.9, 1.12)                       # factor of the length of a speaker's vocal tract
PAUSE = (0.05, 0.9)                      # seconds before, between and after sentences
TWO_SENTENCES = 0.25                     # how often a recording has two
NO_NOISE, REVERBERATION = 0.12, 0.45     # how often
NO_HISS, HISS_DB = 0.25, (-50.0, -35.0)  # how often of these zeros are between words; otherwise, below the loudest
NOISE_DB = (3.0, 40.0)                   # speech above noise
LEVEL = (0.04, 0.9)                      # of the loudest sample, of the largest there is
LARGEST = 32767.0


# -- sentences -----------------------------------------------------------------------------------------------------


class Grammar:
    """Random sentences of rules NAME = ALTERNATIVE | ALTERNATIVE ...; see local/grammar.txt."""

    def __init__(self, path: Path, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.rules: dict[str, tuple[list[list[str]], np.ndarray]] = {}
        for name, text in self._texts(path).items():
            alternatives = [alternative.split() for alternative in text.split("|")]
            weights = np.array([float(words[0][:-1]) if words[0].endswith("*") else 1.0 for words in alternatives])
            self.rules[name] = ([words[words[0].endswith("*"):] for words in alternatives],
                                np.cumsum(weights) / weights.sum())
        unknown = {word for word in self._symbols() if word.startswith("$") and word[1:] not in self.rules}
        if unknown:
            sys.exit(f"make_corpus.py: {path} has no rule for {min(unknown)}")

    @staticmethod
    def _texts(path: Path) -> dict[str, str]:
        texts: dict[str, str] = {}
        name = ""
        for line in path.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                if not line.startswith(" "):
                    name, _, line = line.partition(" = ")
                texts[name] = texts.get(name, "") + " " + line
        return texts

    def _symbols(self) -> set[str]:
        return {word for alternatives, _ in self.rules.values() for words in alternatives for word in words}

    @property
    def words(self) -> list[str]:
        """All words, in order; spelled letters are capitals."""
        return sorted(word for word in self._symbols() if not word.startswith("$"))

    def sentence(self, name: str = "sentence") -> list[str]:
        """What a rule makes."""
        alternatives, cumulative = self.rules[name]
        chosen = alternatives[int(np.searchsorted(cumulative, self.rng.random(), side="right"))]
        return [part for word in chosen for part in (self.sentence(word[1:]) if word.startswith("$") else [word])]


def transcript(words: list[str]) -> str:
    """What is to be recognized: letters small, as words are."""
    return " ".join(words).lower()


def lexicon(words: list[str]) -> list[str]:
    """Lines WORD PHONE ... in two accents; small words also as they sound between others, letters by their names."""
    entries = []
    for voice in LEXICON_VOICES:
        entries += [(word, sum(its_phones, [])) for word, its_phones in
                    zip(words, phones([SPOKEN.get(word, word) for word in words], voice), strict=True)]
        before, behind = CARRIER
        entries += [(word, its_phones[1]) for word, its_phones in
                    zip(REDUCED, phones([f"{before} {word} {behind}" for word in REDUCED], voice), strict=True)
                    if len(its_phones) == 3]
    return sorted({f"{word.lower()} {' '.join(its_phones)}" for word, its_phones in entries})


# -- speech --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Speaker:
    """How somebody sounds: voice of a synthesizer, options, and a factor by which the sound is made longer."""

    name: str
    synthesizer: str
    voice: str
    options: tuple[str, ...]
    warp: float

    @classmethod
    def of(cls, name: str, synthesizer: str, voice: str, rng: np.random.Generator) -> Speaker:
        """A speaker with one of the synthesizer's voices."""
        warp = float(rng.uniform(*WARP))
        options = (["-s", str(rng.integers(*SPEED)), "-p", str(rng.integers(*PITCH))] if synthesizer == "espeak" else
                   ["--setf", f"duration_stretch={rng.uniform(*STRETCH):.3f}"])
        return cls(f"{name}-{voice.replace('+', '-')}", synthesizer, voice, tuple(options), warp)

    def speak(self, words: list[str], scratch: Path) -> np.ndarray:
        """float32 (samples,) at RATE."""
        text = " ".join(SPOKEN.get(word, word) for word in words)
        if self.synthesizer == "espeak":
            espeak("-v", self.voice, *self.options, "-w", str(scratch), text=text)
        else:
            flite("-voice", self.voice, *self.options, "-o", str(scratch), text=text)
        return longer(read_sound(scratch), self.warp)


def longer(sound: np.ndarray, factor: float) -> np.ndarray:
    """The sound, stretched, so that all its frequencies fall: a longer vocal tract, a lower voice."""
    places = np.arange(int((len(sound) - 1) * factor)) / factor
    return np.interp(places, np.arange(len(sound)), sound).astype(np.float32)


def speakers(part: str, count: int, seed: int, use_flite: bool) -> list[Speaker]:
    """The speakers of a part of the corpus."""
    rng = np.random.default_rng([seed, *part.encode()])
    if part == "start":
        return [Speaker(f"start{number:03d}-{voice.replace('+', '-')}", "espeak", voice, (), 1.0)
                for number, voice in enumerate(START_VOICES)]
    of_test = part in ("test", "flite")
    made = []
    for number in range(count):
        if use_flite and (part == "flite" or part != "test" and rng.random() < FLITE_SHARE):
            voices = FLITE_TEST_VOICES if of_test else FLITE_VOICES
            made.append(Speaker.of(f"{part}{number:03d}", "flite", voices[number % len(voices)], rng))
        else:
            variants = TEST_VARIANTS if of_test else VARIANTS
            voice = f"{ACCENTS[rng.integers(len(ACCENTS))]}+{variants[rng.integers(len(variants))]}"
            made.append(Speaker.of(f"{part}{number:03d}", "espeak", voice, rng))
    return made


# -- rooms, microphones, noise -------------------------------------------------------------------------------------


def echoing(sound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The sound in a room: echoes that fade, weaker than what comes directly."""
    from scipy.signal import fftconvolve

    return fftconvolve(sound, impulse_response(rng))[:len(sound)].astype(np.float32)


def colored(sound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Through a microphone: some decibels more or less from low to high frequencies, bent, and perhaps no lows."""
    spectrum = np.fft.rfft(sound)
    place = np.linspace(0.0, 1.0, len(spectrum))
    decibels = rng.uniform(-8.0, 8.0) * place + rng.uniform(-6.0, 6.0) * np.sin(np.pi * place)
    if rng.random() < 0.3:
        decibels -= 30.0 * np.clip(1.0 - place * RATE / 2 / rng.uniform(80.0, 300.0), 0.0, 1.0)
    return np.fft.irfft(spectrum * 10.0 ** (decibels / 20), len(sound)).astype(np.float32)


def recorded(sounds: list[np.ndarray], other: np.ndarray, rng: np.random.Generator, clean: bool = False) -> np.ndarray:
    """Sentences with pauses around them, as a microphone may hear them; or ``clean``, as they are spoken."""
    pauses = [np.zeros(int(rng.uniform(*PAUSE) * RATE), np.float32) for _ in range(len(sounds) + 1)]
    sound = np.concatenate([part for pair in zip(pauses, sounds, strict=False) for part in pair] + [pauses[-1]])
    power = np.sqrt(np.mean(np.concatenate(sounds) ** 2) + 1e-9)
    if not clean and rng.random() > NO_NOISE:
        if rng.random() < REVERBERATION:
            sound = echoing(sound, rng)
        sound = sound + power * 10.0 ** (-rng.uniform(*NOISE_DB) / 20) * noise(len(sound), other, rng)
        sound = colored(sound, rng)
    elif clean or rng.random() > NO_HISS:
        # Features of zeros lie so far from all others that a flat start learns next to nothing beside them.
        hiss = np.abs(sound).max() * 10.0 ** (rng.uniform(*HISS_DB) / 20)
        sound = sound + hiss * rng.standard_normal(len(sound))
    level = np.exp(rng.uniform(*np.log(LEVEL))) * LARGEST
    return (sound * (level / max(float(np.abs(sound).max()), 1.0))).astype(np.float32)


# -- the corpus ----------------------------------------------------------------------------------------------------


def utterances(part: str, its_speakers: list[Speaker], count: int, grammar: Grammar, scratch: Path,
               seed: int) -> Iterator[tuple[str, str, str, np.ndarray]]:
    """(Key, speaker, transcript, sound) of ``count`` recordings of each speaker."""
    rng = np.random.default_rng([seed, *part.encode()])
    other = np.zeros(0, np.float32)
    for speaker in its_speakers:
        for number in range(count):
            sentences = [grammar.sentence() for _ in range(1 + (rng.random() < TWO_SENTENCES))]
            sounds = [speaker.speak(sentence, scratch) for sentence in sentences]
            yield (f"{speaker.name}-{number:03d}", speaker.name, " ".join(map(transcript, sentences)),
                   recorded(sounds, other, rng, part in CLEAN_PARTS))
            other = sounds[0]


def main() -> None:
    """Make the corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    parser.add_argument("--num-speakers", type=int, default=110, help="to train on; a tenth as many in each other part")
    parser.add_argument("--num-sentences", type=int, default=21, help="recordings of each speaker")
    parser.add_argument("--num-start", type=int, default=90, help="recordings of each speaker of start/")
    parser.add_argument("--num-text", type=int, default=12000, help="sentences for the language model")
    parser.add_argument("--flite", choices=("true", "false"), default="true", help="voices of flite, too")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    use_flite = args.flite == "true"
    for program in ("espeak-ng", *(["flite"] if use_flite else [])):
        need_program(program)

    args.out.mkdir(parents=True, exist_ok=True)
    grammar_file = Path(__file__).with_name("grammar.txt")
    grammar = Grammar(grammar_file, args.seed)
    (args.out / "lexicon.txt").write_text("".join(line + "\n" for line in lexicon(grammar.words)))
    text = Grammar(grammar_file, args.seed + 1)
    (args.out / "lm.txt").write_text("".join(transcript(text.sentence()) + "\n" for _ in range(args.num_text)))
    scratch = args.out / "sentence.wav"
    for part in ("start", "train", "dev", "test", *(["flite"] if use_flite else [])):
        of_part = args.num_speakers if part == "train" else -(-args.num_speakers // 10)
        made = speakers(part, of_part, args.seed, use_flite)
        count = args.num_start if part == "start" else args.num_sentences
        write_data(args.out / part, utterances(part, made, count, grammar, scratch, args.seed))
        print(f"make_corpus.py: {args.out / part}: {len(made)} speakers, {len(made) * count} recordings")
    scratch.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
