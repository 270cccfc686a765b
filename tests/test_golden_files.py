"""Every file of Kaldi's reference material that this package reads, read and written again: the bytes are the same.

``KINDS`` says what each file is; a file that is in no row and not listed as something else fails the test. The
names are printed: ``pytest -s tests/test_golden_files.py``.
"""
from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from paths import DATA, shared_golden

from nnet3py import read_model, read_nnet
from nnet3py.egs.chain_example import CHAIN_EXAMPLE, SUPERVISION
from nnet3py.egs.example import EXAMPLE
from nnet3py.egs.raw_example import RAW_EXAMPLE
from nnet3py.formats.general import read_general_matrix, write_general_matrix
from nnet3py.formats.holders import (
    FLOAT_MATRIX,
    GENERAL_MATRIX,
    INT_PAIR_VECTOR,
    INT_VECTOR,
    POSTERIOR,
    Holder,
)
from nnet3py.formats.lda_stats import LdaStats
from nnet3py.formats.matrices import read_vector, write_vector
from nnet3py.hmm.topology import HmmTopology
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.tables import SequentialReader, TableWriter, write_table
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.transducers.fst_text import FST, read_fst, write_fst

# what files of other kinds are, by their place: those that are not data of Kaldi's formats
_TEXT_FOR_PEOPLE = re.compile(
    r"(.*/)?(log|command|vars|keys|info\.txt|am-info\.txt|valid\.log|compute-prob\.log|README\.md|objective\.txt|"
    r"computation(-unoptimized)?\.txt|request\.txt|[\w.-]*config(\.txt)?|[\w.]*xconfig|xconfig\.expanded\.\d|ph5\.txt|"
    r"phones\.txt)")

# inputs that a person or a script wrote, not Kaldi: each with how it differs from what Kaldi writes
NOT_AS_WRITTEN = {
    "cases/net-tdnn/lda.mat": "no blank at the end of rows",
    "cases/net-tdnnf/idct.mat": "more digits",
    "chain/phones.len": "no blank at the end of lines",
    "chain/phones.seq": "no blank at the end of lines",
    "chain/topo": "phones on the line of their tags",
    "data/ali.txt": "no blank at the end of lines",
    "data/topo": "phones on the line of their tags",
    "xconfig/idct.mat": "more digits",
    "xconfig/lda.mat": "no blank at the end of rows",
}
EMPTY = ("data/show-transitions.txt", "tools/show-progress/out.txt")
PRINTED_DIGITS = 1e-6          # relative; Kaldi prints seven digits

Copy = Callable[[Path, Path], None]


def is_binary(path: Path) -> bool:
    return path.read_bytes()[:2] == b"\0B"


def copy_nnet(source: Path, target: Path) -> None:
    read_nnet(str(source)).write(str(target), binary=is_binary(source))


def copy_model(source: Path, target: Path) -> None:
    read_model(str(source)).write(str(target), binary=is_binary(source))


def copy_object(read: Callable[[TokenReader], object], write: Callable[..., None]) -> Copy:
    """A file with one object."""
    def copy(source: Path, target: Path) -> None:
        value = read_object(str(source), read)
        write_object(str(target), lambda writer: write(writer, value), binary=is_binary(source))
    return copy


def write_of(writer: TokenWriter, value: object) -> None:
    value.write(writer)      # type: ignore[attr-defined]


def copy_gaussian_model(source: Path, target: Path) -> None:
    """A model of Gaussian mixtures: nnet3's commands read its transition model only; the rest is kept as bytes."""
    reader = TokenReader(io.BytesIO(source.read_bytes()), path=str(source))
    binary = reader.read_header()
    model = TransitionModel.read(reader)
    stream = io.BytesIO()
    stream.write(b"\0B" if binary else b"")
    model.write(TokenWriter(stream, binary))
    target.write_bytes(stream.getvalue() + source.read_bytes()[reader.offset:])


def copy_fst(source: Path, target: Path) -> None:
    """An FST in a file of its own; it has no header."""
    data = source.read_bytes()
    stream = io.BytesIO()
    write_fst(TokenWriter(stream, data[:1] not in (b" ", b"\n", b"\t")),
              read_fst(TokenReader(io.BytesIO(data), path=str(source))))
    target.write_bytes(stream.getvalue())


def copy_table(*holders: Holder) -> Copy:
    """A table, once with each holder; the last copy stays."""
    def copy(source: Path, target: Path) -> None:
        for holder in holders:
            option = "b" if b" \0B" in source.read_bytes()[:200] else "t"
            with TableWriter(f"ark,{option}:{target}", holder) as writer, \
                    SequentialReader(f"ark:{source}", holder) as reader:
                for key, value in reader:
                    writer.write(key, value)
            if target.read_bytes() != source.read_bytes():
                return
    return copy


_EGS = copy_table(EXAMPLE, RAW_EXAMPLE)
_TREE = copy_object(ContextDependency.read, write_of)
_TRANSITIONS = copy_object(TransitionModel.read, write_of)
_MATRIX = copy_object(read_general_matrix, write_general_matrix)

# the first row whose pattern matches the whole name says how a file is copied
KINDS: list[tuple[str, Copy]] = [
    (r".*\.raw|cases/.*/nnet\.txt|tools/copy-text/out\.txt", copy_nnet),
    (r"data/trans\.(mdl|txt)|.*\.trans_mdl", _TRANSITIONS),
    (r"data/mono\.mdl", copy_gaussian_model),
    (r".*\.mdl|.*\.mdl\.txt", copy_model),
    (r"(.*/)?tree", _TREE),
    (r"(.*/)?topo", copy_object(HmmTopology.read, write_of)),
    (r".*\.fst", copy_fst),
    (r".*\.acc", copy_object(LdaStats.read, write_of)),
    (r".*\.mat", _MATRIX),
    (r"data/priors\.txt", copy_object(read_vector, write_vector)),
    (r"data/post\.(ark|txt)", copy_table(POSTERIOR)),
    (r"data/feats-cm\d?\.ark", copy_table(GENERAL_MATRIX)),
    (r"data/ali\.(ark|txt)|tools/ali-to-pdf/pdf\.txt|.*\.seq", copy_table(INT_VECTOR)),
    (r".*\.len", copy_table(INT_PAIR_VECTOR)),
    (r"chain/sup\.ark", copy_table(SUPERVISION)),
    (r".*cegs(\.ark)?|egs/chain\.ark", copy_table(CHAIN_EXAMPLE)),
    (r"train/(egs|valid)\.ark|tools/.*egs.*/egs\.(ark|txt)", _EGS),
    (r"data/feats\.txt|tools/compute.*/out\.txt|.*\.ark", copy_table(FLOAT_MATRIX, GENERAL_MATRIX)),
]

OF_STEPS = ("lattices", "recognition", "trees", "discriminative", "features", "rnnlm", "published")    # by content
MUST_BE_COVERED = re.compile(r".*\.(raw|mdl|ark|cegs|fst|acc|mat|trans_mdl)|(.*/)?(nnet\.txt|tree|topo)")


def copier(name: str) -> Copy | None:
    return next((copy for pattern, copy in KINDS if re.fullmatch(pattern, name)), None)


def changed_files(base: Path, names: Iterable[str], target: Path) -> list[str]:
    """The files whose copies differ."""
    found = []
    for name in names:
        copy = copier(name)
        assert copy is not None
        copy(base / name, target)
        if target.read_bytes() != (base / name).read_bytes():
            found.append(name)
        target.unlink()
    return found


def test_every_file_is_written_as_it_was(tmp_path: Path) -> None:
    golden = shared_golden()
    names = sorted(str(path.relative_to(golden)) for path in golden.rglob("*") if path.is_file()
                   and path.relative_to(golden).parts[0] not in OF_STEPS)
    others = [name for name in names
              if _TEXT_FOR_PEOPLE.fullmatch(name) or name in NOT_AS_WRITTEN or name in EMPTY]
    covered = [name for name in names if name not in others]
    unknown = [name for name in covered if copier(name) is None]
    assert not unknown, f"no row of KINDS says what these are: {unknown}"
    assert not [name for name in others if MUST_BE_COVERED.fullmatch(name) and name not in NOT_AS_WRITTEN]
    assert changed_files(golden, covered, tmp_path / "copy") == []
    print(f"\n{len(covered)} files are the same when read and written again:", *covered, sep="\n  ")
    print("Left out:", *(f"{name}: {reason}" for name, reason in NOT_AS_WRITTEN.items()), sep="\n  ")
    assert not set(NOT_AS_WRITTEN) - set(names)
    assert not any((golden / name).stat().st_size for name in EMPTY)


@pytest.mark.parametrize("name", NOT_AS_WRITTEN)
def test_files_that_kaldi_did_not_write_keep_their_contents(name: str, tmp_path: Path) -> None:
    """The same words and numbers in the same order; and what was written once is then written the same."""
    source, copy = shared_golden() / name, copier(name)
    assert copy is not None
    copy(source, tmp_path / "first")
    copy(tmp_path / "first", tmp_path / "second")
    assert (tmp_path / "second").read_bytes() == (tmp_path / "first").read_bytes()
    for before, after in zip(source.read_text().split(), (tmp_path / "first").read_text().split(), strict=True):
        assert before == after or float(after) == pytest.approx(float(before), rel=PRINTED_DIGITS)


@pytest.mark.parametrize("name, copy", [
    ("egs/chain.ark", copy_table(CHAIN_EXAMPLE)), ("egs/sup.ark", copy_table(SUPERVISION)),
    ("egs/compressed.ark", _EGS), ("egs/uncompressed.ark", _EGS), ("io/den.fst", copy_fst),
    ("io/binary.trans_mdl", _TRANSITIONS), ("io/chain.trans_mdl", _TRANSITIONS), ("io/post.ark", copy_table(POSTERIOR)),
    ("network/tree", _TREE), ("network/am.mdl", copy_model), ("network/am.mdl.txt", copy_model),
    ("cases/affine/nnet.raw", copy_nnet)])
def test_samples_of_every_form(name: str, copy: Copy, tmp_path: Path) -> None:
    copy(DATA / name, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (DATA / name).read_bytes()


def test_tables_of_fsts(tmp_path: Path) -> None:
    fst = read_fst(TokenReader(io.BytesIO((DATA / "io" / "den.fst").read_bytes()), path="den.fst"))
    for option in "bt":
        first, second = (tmp_path / f"{option}{number}" for number in (1, 2))
        write_table(f"ark,{option}:{first}", FST, ((key, fst) for key in ("u1", "u2")))
        with TableWriter(f"ark,{option}:{second}", FST) as writer, SequentialReader(f"ark:{first}", FST) as reader:
            for key, value in reader:
                writer.write(key, value)
        assert first.read_bytes() == second.read_bytes()
        assert first.read_bytes()[:5] == (b"u1 \xd6\xfd" if option == "b" else b"u1 \n7")     # no header
