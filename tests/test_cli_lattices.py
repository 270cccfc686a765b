"""The lattice tools on lattices of Kaldi's, against what Kaldi's tools made of them."""
from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from io_samples import read_table
from lattice_cases import LATTICE_DATA, best_by_words, check_same_words, kaldi_lattices

from nnet3py.cli.main import load
from nnet3py.io.object_files import read_object
from nnet3py.io.tables import SequentialReader
from nnet3py.transducers.fst_text import read_fst, write_fst_file
from nnet3py.transducers.lattice import COMPACT_LATTICES

COST = 2e-3          # subsets of states are the same if their costs differ by less than 1/1024; two may add up
NUMBER = 1e-5        # relative: what is printed has 6 or 7 digits
LAST_DIGIT = 0.011   # of two that are printed
SAUSAGE = 5e-3       # equally good alignments are chosen by rounding
FRAMES = 1e-3        # sums of many products
KEYS = ["en-029-belinda-03", "en-029-ed-01", "en-029-ed-03"]

# Name of the step, commands, the file that is compared, and how far its numbers may be off.
TEXTS = [
    ("best-path", ["lattice-best-path --acoustic-scale=0.5 --lm-scale=2.0 --word-symbol-table=data/words.txt "
                   "ark:decode/lat.ark ark,t:words.txt ark,t:ali.txt"], ("words.txt", "ali.txt"), 0.0),
    ("one-best", ["lattice-1best --acoustic-scale=0.5 ark:decode/lat.ark ark:1", "nbest-to-linear ark:1 ark:/dev/null "
                  "ark:/dev/null ark,t:lm.txt ark,t:ac.txt"], ("lm.txt", "ac.txt"), NUMBER),
    ("nbest", ["lattice-to-nbest --acoustic-scale=1.0 --n=10 ark:decode/lat.ark ark:n", "nbest-to-linear ark:n "
               "ark:/dev/null ark:/dev/null ark,t:lm.txt ark,t:ac.txt"], ("lm.txt", "ac.txt"), NUMBER),
    ("confidence", ["lattice-confidence --acoustic-scale=0.5 ark:decode/lat.ark ark,t:confidence.txt"],
     ("confidence.txt",), NUMBER),
    ("depth", ["lattice-depth ark:decode/lat.ark ark,t:depth.txt", "lattice-depth-per-frame ark:decode/lat.ark "
               "ark,t:frames.txt ark:copy"], ("depth.txt", "frames.txt"), NUMBER),
    ("post", ["lattice-to-post --acoustic-scale=0.7 ark:decode/lat.ark ark,t:post.txt ark,t:loglikes.txt"],
     ("post.txt", "loglikes.txt"), NUMBER),
    ("to-fst", ["lattice-to-fst --acoustic-scale=1.0 --lm-scale=1.0 ark:decode/lat.ark ark,t:fst.txt"], ("fst.txt",),
     NUMBER),
    ("mbr", ["lattice-mbr-decode --acoustic-scale=0.5 ark:decode/lat.ark ark,t:words.txt ark,t:risk.txt "
             "ark,t:sausages.txt ark,t:times.txt", "lattice-mbr-decode --acoustic-scale=0.5 --one-best-times=true "
             "ark:decode/lat.ark ark:/dev/null ark:/dev/null ark:/dev/null ark,t:one-best-times.txt"],
     ("words.txt", "risk.txt", "times.txt", "one-best-times.txt"), FRAMES),
    ("oracle", ["lattice-oracle --word-symbol-table=data/words.txt ark:decode/lat.ark ark:data/text.int "
                "ark,t:words.txt ark,t:edits.txt"], ("edits.txt",), 0.0),
    ("ctm", ["lattice-1best ark:decode/lat.ark ark:1", "lattice-align-words data/word_boundary.int data/trans.mdl "
             "ark:1 ark:2", "nbest-to-ctm --frame-shift=0.03 --print-silence=true ark:2 ctm"], ("ctm",), 0.0),
    ("ctm-lexicon", ["lattice-1best ark:decode/lat.ark ark:1", "lattice-align-words-lexicon data/align_lexicon.int "
                     "data/trans.mdl ark:1 ark:2", "lattice-1best ark:2 ark:3",
                     "nbest-to-ctm --frame-shift=0.03 ark:3 ctm"], ("ctm",), 0.0),
    ("ctm-conf", ["lattice-prune --inv-acoustic-scale=2 --beam=5 ark:decode/lat.ark ark:1", "lattice-align-words "
                  "data/word_boundary.int data/trans.mdl ark:1 ark:2", "lattice-to-ctm-conf --frame-shift=0.03 "
                  "--decode-mbr=true --inv-acoustic-scale=2 ark:2 ctm", "lattice-to-ctm-conf --frame-shift=0.03 "
                  "--decode-mbr=false --confidence-digits=4 --acoustic-scale=0.5 ark:decode/lat.ark "
                  "ark:best-path/words.txt map.ctm"], ("ctm", "map.ctm"), LAST_DIGIT),
]

LATTICES = [
    ("scale", ["lattice-scale --acoustic-scale=10 --lm-scale=0.9 --lm2acoustic-scale=0.1 ark:decode/lat.ark ark:out"],
     "lat.ark"),
    ("penalty", ["lattice-add-penalty --word-ins-penalty=0.5 ark:decode/lat.ark ark:out"], "lat.ark"),
    ("prune", ["lattice-prune --beam=4 ark:decode/lat.ark ark:out"], "lat.ark"),
    ("boost", ["lattice-boost-ali --b=0.1 --silence-phones=1 data/trans.mdl ark:decode/lat.ark ark:best-path/ali.txt "
               "ark:out"], "lat.ark"),
    ("push", ["lattice-push ark:decode/lat.ark ark:out"], "lat.ark"),
    ("minimize", ["lattice-minimize ark:decode/lat.ark ark:out"], "lat.ark"),
    ("align-words", ["lattice-align-words data/word_boundary.int data/trans.mdl ark:decode/lat.ark ark:out"],
     "lat.ark"),
    ("align-words-lexicon", ["lattice-align-words-lexicon data/align_lexicon.int data/trans.mdl ark:decode/lat.ark "
                             "ark:out"], "lat.ark"),
    ("align-phones", ["lattice-align-phones data/trans.mdl ark:decode/lat.ark ark:out"], "lat.ark"),
    ("align-phones", ["lattice-align-phones --replace-output-symbols=true data/trans.mdl ark:decode/lat.ark ark:out"],
     "phones.ark"),
    ("to-phone-lattice", ["lattice-to-phone-lattice data/trans.mdl ark:decode/lat.ark ark:out"], "lat.ark"),
    ("to-phone-lattice", ["lattice-to-phone-lattice --replace-words=false data/trans.mdl ark:decode/lat.ark ark:out"],
     "strings.ark"),
    ("rescore", ["lattice-lmrescore --lm-scale=-1.0 ark:decode/lat.ark G.fst ark:out"], "no-lm.ark"),
    ("rescore", ["lattice-lmrescore --lm-scale=1.0 ark:rescore/no-lm.ark G3.fst ark:out"], "lat.ark"),
    ("rescore-const-arpa", ["lattice-lmrescore-const-arpa --lm-scale=1.0 ark:rescore/no-lm.ark const-arpa/G.carpa "
                            "ark:out"], "lat.ark"),
    ("compose", ["lattice-interp --alpha=0.3 ark:decode/lat.ark ark:decode-narrow/lat.ark ark:out"], "interp.ark"),
    ("compose", ["lattice-union ark:decode-narrow/lat.ark ark:decode/lat.ark ark:out"], "union.ark"),
    ("compose", ["lattice-combine --lat-weights=0.3:0.7 ark:decode/lat.ark ark:rescore-const-arpa/lat.ark ark:out"],
     "combined.ark"),
]
WITHIN_A_BEAM = [
    ("prune", ["lattice-prune --acoustic-scale=0.2 --beam=2 ark:copy-include/raw.ark ark:out"], "raw.ark", 2.0),
    ("determinize-pruned", ["lattice-determinize-pruned --acoustic-scale=1.0 --beam=6 ark:copy-include/raw.ark "
                            "ark:out"], "lat.ark", 6.0),
    ("determinize-pruned", ["lattice-determinize-pruned --acoustic-scale=1.0 --beam=6 --minimize=true "
                            "ark:copy-include/raw.ark ark:out"], "minimized.ark", 6.0),
    ("determinize-phone-pruned", ["lattice-determinize-phone-pruned --acoustic-scale=1.0 --beam=4 data/trans.mdl "
                                  "ark:copy-include/raw.ark ark:out"], "lat.ark", 4.0),
    ("rescore-pruned", ["lattice-lmrescore-pruned --add-const-arpa=true graph-grammar/G.fst const-arpa/G.carpa "
                        "ark:decode/lat.ark ark:out"], "lat.ark", 6.0),
]
INSIDE = 0.9         # of the beam: closer to it rounding decides


@pytest.fixture
def folder(here: Path) -> Path:
    """A folder with the data, the current one."""
    for step in LATTICE_DATA.iterdir():
        if step.name != "ctm":                     # that is the name of what commands write
            (here / step.name).symlink_to(step)
    for name in ("G.fst", "G3.fst"):               # as by fstproject --project_type=output: back-off becomes epsilon
        fst = read_object(str(LATTICE_DATA / "graph-grammar" / name), read_fst)
        write_fst_file(here / name, dataclasses.replace(fst, input_labels=fst.output_labels, stored=None))
    return here


def run(commands: list[str]) -> None:
    for command in commands:
        name, *words = command.split()
        assert load(name).execute(words) == 0, command


def check_text(found: str, expected: str, tolerance: float) -> None:
    """Words are the same, numbers nearly."""
    ours, kaldis = found.split(), expected.split()
    assert len(ours) == len(kaldis)
    for one, other in zip(ours, kaldis, strict=True):
        if re.fullmatch(r"-?[0-9]+\.[0-9]+(e-?[0-9]+)?", other):
            assert abs(float(one) - float(other)) <= tolerance * max(1.0, abs(float(other))), (one, other)
        else:
            assert one == other


@pytest.mark.parametrize(("step", "commands", "names", "tolerance"), TEXTS, ids=[row[0] for row in TEXTS])
def test_texts(folder: Path, step: str, commands: list[str], names: tuple[str, ...], tolerance: float) -> None:
    run(commands)
    for name in names:
        check_text((folder / name).read_text(), (LATTICE_DATA / step / name).read_text(), tolerance)


@pytest.mark.parametrize(("step", "commands", "name"), LATTICES, ids=[f"{row[0]}-{row[2]}" for row in LATTICES])
def test_lattices(folder: Path, step: str, commands: list[str], name: str) -> None:
    run(commands)
    compare("out", f"{step}/{name}", float("inf"))


@pytest.mark.parametrize(("step", "commands", "name", "beam"), WITHIN_A_BEAM,
                         ids=[f"{row[0]}-{row[2]}" for row in WITHIN_A_BEAM])
def test_lattices_within_a_beam(folder: Path, step: str, commands: list[str], name: str, beam: float) -> None:
    run(commands)
    compare("out", f"{step}/{name}", INSIDE * beam)


def compare(name: str, expected: str, inside: float) -> None:
    found = read_table(f"ark:{name}", COMPACT_LATTICES)
    kaldis = kaldi_lattices(expected)
    assert [key for key in found if key in kaldis] == list(kaldis)
    for key, lattice in kaldis.items():
        check_same_words(found[key], lattice, COST, inside)


def test_arc_posteriors(folder: Path) -> None:
    run(["lattice-arc-post --acoustic-scale=0.5 data/trans.mdl ark:decode/lat.ark post.txt"])
    rows = [sorted(text.splitlines()) for text in ((folder / "post.txt").read_text(),
                                                   (LATTICE_DATA / "arc-post" / "post.txt").read_text())]
    check_text("\n".join(rows[0]), "\n".join(rows[1]), NUMBER)


def test_sausages(folder: Path) -> None:
    run(["lattice-mbr-decode --acoustic-scale=0.5 ark:decode/lat.ark ark:/dev/null ark:/dev/null ark,t:sausages.txt"])
    for ours, kaldis in zip((folder / "sausages.txt").read_text().splitlines(),
                            (LATTICE_DATA / "mbr" / "sausages.txt").read_text().splitlines(), strict=True):
        places = [[dict(zip(words[::2], map(float, words[1::2]), strict=True)) for words in
                   (part.split() for part in re.findall(r"\[([^]]*)\]", line))] for line in (ours, kaldis)]
        assert len(places[0]) == len(places[1])
        for one, other in zip(*places, strict=True):
            assert all(abs(one.get(word, 0.0) - other.get(word, 0.0)) <= SAUSAGE for word in {*one, *other})


def test_copies(folder: Path) -> None:
    run(["lattice-copy ark:decode/lat.ark ark,t:lat.txt", "lattice-copy ark:copy-include/raw.ark ark:factored.ark"])
    assert (folder / "lat.txt").read_text() == (LATTICE_DATA / "copy-text" / "lat.txt").read_text()
    with SequentialReader("ark:factored.ark", COMPACT_LATTICES) as reader:
        kaldis = kaldi_lattices("copy-text/factored.ark")
        assert all(lattice.equals(kaldis[key]) for key, lattice in reader)


def keys_of(name: str) -> list[str]:
    return [key for key, _ in read_table(f"ark:{name}", COMPACT_LATTICES).items()]


def test_some_are_copied(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("list").write_text(f"{KEYS[1]} and more\n")
    run(["lattice-copy --include=list ark:decode/lat.ark ark:included",
         "lattice-copy --exclude=list ark:decode/lat.ark ark:excluded"])
    assert keys_of("included") == [KEYS[1]] and keys_of("excluded") == [KEYS[0], KEYS[2]]
    assert " Wrote 1 out of 3 utterances." in capfd.readouterr().err
    # With plain lattices a list of what to leave out is a list of what to take, as in Kaldi.
    run(["lattice-copy --write-compact=false --exclude=list ark:decode/lat.ark ark:plain"])
    assert keys_of("plain") == [KEYS[1]]
    Path("nothing").write_text("nobody\n")
    copy = load("lattice-copy")
    assert copy.execute(["--include=nothing", "ark:decode/lat.ark", "ark:none"]) == 1
    assert copy.execute(["--include=nothing", "--ignore-missing=true", "ark:decode/lat.ark", "ark:none"]) == 0
    assert copy.execute(["--include=list", "--exclude=list", "ark:decode/lat.ark", "ark:none"]) == 255


def test_what_another_table_has_comes_from_there(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    keys = keys_of("decode/lat.ark")
    Path("list").write_text(f"{keys[1]}\n")
    run(["lattice-copy --include=list ark:decode-narrow/lat.ark ark:some",
         "lattice-copy-backoff ark:decode/lat.ark ark:some ark:out"])
    assert f"Done {len(keys)} lattices; {len(keys) - 1} were from the first table, 1 from the second." in (
        capfd.readouterr().err)
    with (SequentialReader("ark:out", COMPACT_LATTICES) as found,
          SequentialReader("ark:decode/lat.ark", COMPACT_LATTICES) as first,
          SequentialReader("ark:decode-narrow/lat.ark", COMPACT_LATTICES) as second):
        for (key, lattice), (_, one), (_, other) in zip(found, first, second, strict=True):
            assert one.num_arcs != other.num_arcs
            expected = other if key == keys[1] else one
            np.testing.assert_array_equal(lattice.weights, expected.weights)
            np.testing.assert_array_equal(lattice.ids, expected.ids)


def damage_second_lattice() -> None:
    archive = (LATTICE_DATA / "decode" / "lat.ark").read_bytes()
    second = archive.index(KEYS[1].encode())
    Path("damaged").write_bytes(archive[:second + len(KEYS[1]) + 1] + b"damage")


def test_a_sorted_archive_is_read_up_to_the_last_that_is_wanted(folder: Path) -> None:
    Path("list").write_text(f"{KEYS[0]}\n")
    damage_second_lattice()
    assert load("lattice-copy").execute(["--include=list", "ark,s:damaged", "ark:out"]) == 0
    assert keys_of("out") == [KEYS[0]]


def test_acoustic_costs_are_kept_by_frame(folder: Path) -> None:
    """--write-compact=false gives back each transition-id's own acoustic cost; paths cost what they did."""
    run(["lattice-determinize-pruned --beam=6 --write-compact=false ark:copy-include/raw.ark ark:out",
         "lattice-determinize-non-compact --prune=true --beam=6 ark:out ark:again"])
    for name in ("out", "again"):
        compare(name, "determinize-pruned/lat.ark", INSIDE * 6.0)


def test_the_costs_that_are_taken_off_can_be_added_again(folder: Path) -> None:
    run(["lattice-lmrescore --lm-scale=-1.0 ark:decode/lat.ark G.fst ark:1",
         "lattice-lmrescore --lm-scale=1.0 ark:1 G.fst ark:out"])
    compare("out", "decode/lat.ark", float("inf"))


def test_confidence_of_what_is_not_determinized(folder: Path) -> None:
    run(["lattice-determinize ark:copy-include/raw.ark ark:det", "lattice-confidence ark:det ark,t:1",
         "lattice-confidence --read-compact-lattice=false ark:copy-include/raw.ark ark,t:2"])
    check_text(Path("2").read_text(), Path("1").read_text(), COST)


def test_linear_parts_make_the_path_again(folder: Path) -> None:
    run(["lattice-1best ark:decode/lat.ark ark:1", "nbest-to-linear ark:1 ark:ali ark:words ark:lm ark:ac",
         "linear-to-nbest ark:ali ark:words ark:lm ark:ac ark:2", "nbest-to-linear ark:2 ark,t:ali2 ark,t:words2 "
         "ark,t:lm2 ark,t:ac2", "nbest-to-linear ark:1 ark,t:ali1 ark,t:words1 ark,t:lm1 ark,t:ac1"])
    for name in ("ali", "words", "lm", "ac"):
        assert Path(f"{name}1").read_text() == Path(f"{name}2").read_text()


def test_words_with_their_phones(folder: Path) -> None:
    """What is printed is in the lexicon, and its times are those of the CTM."""
    run(["lattice-1best ark:decode/lat.ark ark:1", "lattice-align-words data/word_boundary.int data/trans.mdl ark:1 "
         "ark:2", "nbest-to-prons data/trans.mdl ark:2 prons", "nbest-to-ctm --print-silence=true ark:2 times"])
    lines = (LATTICE_DATA / "data" / "align_lexicon.int").read_text().splitlines()
    lexicon = {tuple(line.split()[1:]) for line in lines}
    prons = [line.split() for line in Path("prons").read_text().splitlines()]
    assert prons and all(tuple(fields[3:]) in lexicon for fields in prons)
    times = [line.split() for line in Path("times").read_text().splitlines()]
    assert [(fields[0], int(fields[1]), int(fields[2]), fields[3]) for fields in prons] == [
        (fields[0], round(100 * float(fields[2])), round(100 * float(fields[3])), fields[4]) for fields in times]


def test_the_difference_with_the_best_path_lacks_it(folder: Path) -> None:
    run(["lattice-1best ark:decode/lat.ark ark:1", "lattice-difference ark:decode/lat.ark ark:1 ark:out",
         "lattice-union ark:out ark:1 ark:all"])
    compare("all", "decode/lat.ark", float("inf"))
    with SequentialReader("ark:out", COMPACT_LATTICES) as reader, SequentialReader("ark:1", COMPACT_LATTICES) as best:
        for (_, rest), (_, one) in zip(reader, best, strict=True):
            assert not best_by_words(rest).keys() & best_by_words(one).keys()


@pytest.mark.parametrize("command", [
    "lattice-scale --acoustic-scale=2 --inv-acoustic-scale=2 ark:decode/lat.ark ark:out",
    "lattice-prune --acoustic-scale=0 ark:decode/lat.ark ark:out",
    "lattice-1best --lm-scale=0 ark:decode/lat.ark ark:out",
    "lattice-prune --beam=-1 ark:decode/lat.ark ark:out",
    "lattice-combine --lat-weights=1:2:3 ark:decode/lat.ark ark:decode/lat.ark ark:out",
    "lattice-compose --phi-label=3 --rho-label=4 ark:decode/lat.ark graph-grammar/G.fst ark:out",
    "nbest-to-ctm ark:decode/lat.ark ark:ctm", "lattice-to-ctm-conf ark:decode/lat.ark ark:ctm",
    "lattice-align-words data/words.txt data/trans.mdl ark:decode/lat.ark ark:out",
    "lattice-align-words-lexicon data/words.txt data/trans.mdl ark:decode/lat.ark ark:out",
    "lattice-lmrescore-const-arpa ark:decode/lat.ark graph-grammar/G.fst ark:out",
    "lattice-oracle ark:data/text.int ark:data/text.int ark:out",
    "lattice-interp ark:decode/lat.ark ark:damaged ark:out",
    "lattice-combine ark:decode/lat.ark ark:damaged ark:out",
    "lattice-compose ark:decode/lat.ark ark:damaged ark:out",
])
def test_what_cannot_be_done_is_one_error(folder: Path, capfd: pytest.CaptureFixture[str], command: str) -> None:
    damage_second_lattice()
    name, *words = command.split()
    assert load(name).execute(words) == 255
    assert capfd.readouterr().err.count("ERROR (") == 1
    assert not Path("out").exists()


def test_an_empty_table_gives_1(folder: Path) -> None:
    Path("empty").write_bytes(b"")
    shutil.copy(LATTICE_DATA / "data" / "trans.mdl", "trans")
    for command in ("lattice-scale ark:empty ark:out", "lattice-best-path ark:empty ark:out",
                    "lattice-align-phones trans ark:empty ark:out", "lattice-lmrescore ark:empty graph-grammar/G.fst "
                    "ark:out", "lattice-mbr-decode ark:empty ark:out", "lattice-union ark:empty ark:empty ark:out"):
        name, *words = command.split()
        assert load(name).execute(words) == 1, command
