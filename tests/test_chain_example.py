"""Chain examples and supervisions: files of Kaldi's, every form, wrong ones."""
from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from io_samples import archive, check_survives, reader_of, written
from paths import DATA

from nnet3py.egs.chain_example import (
    CHAIN_EXAMPLE,
    SUPERVISION,
    NnetChainExample,
    NnetChainSupervision,
    Supervision,
    read_chain_egs,
    read_supervisions,
)
from nnet3py.errors import FormatError, ShapeError
from nnet3py.io.tables import write_table
from nnet3py.transducers.fst_text import read_text_fst

FOLDER = DATA / "egs"


def save(value: NnetChainExample | Supervision, binary: bool) -> bytes:
    return written(lambda writer: value.write(writer), binary=binary)


def first_example() -> NnetChainExample:
    return next(read_chain_egs(f"ark:{FOLDER / 'chain.ark'}"))[1]


def end_to_end() -> Supervision:
    loop = read_text_fst(reader_of(b"\n0 1 2 2 0.5\n1 1 3 3\n1\n\n", False))
    line = read_text_fst(reader_of(b"\n0 1 4 4\n1\n\n", False))
    return Supervision(weight=0.5, num_sequences=2, frames_per_sequence=3, label_dim=5, e2e_fsts=[loop, line],
                       alignment_pdfs=np.array([1, 2, 3], dtype=np.int32))


def test_examples_of_kaldis() -> None:
    found = list(archive(FOLDER / "chain.ark", NnetChainExample.read))
    assert [key for key, _, _ in found] == ["en-029-norbert-01-48", "en-029-belinda-01-111"]
    for _, eg, data in found:
        assert save(eg, True) == data
        output = eg.outputs[0]
        assert [io.name for io in eg.inputs] == ["input"]
        assert output.name == "output"
        assert (output.supervision.num_sequences, output.supervision.label_dim) == (1, 56)
        assert len(output.indexes) == output.supervision.frames_per_sequence == len(output.deriv_weights)
        assert output.supervision.fst is not None
        assert output.supervision.fst.is_acceptor
        text = save(eg, False)
        assert save(NnetChainExample.read(reader_of(text, False)), False) == text


def test_supervisions_of_kaldis() -> None:
    found = list(archive(FOLDER / "sup.ark", Supervision.read))
    assert len(found) == 1
    for _, supervision, data in found:
        assert save(supervision, True) == data
        again = Supervision.read(reader_of(save(supervision, False), False))
        assert save(again, True) == data                # through text, properties and all, for there are no costs


@pytest.mark.parametrize("holder, name", [(CHAIN_EXAMPLE, "chain.ark"), (SUPERVISION, "sup.ark")])
def test_tables_are_copied(tmp_path: Path, holder, name: str) -> None:
    copy, text, back = (tmp_path / part for part in ("copy", "text", "back"))
    read = read_chain_egs if holder is CHAIN_EXAMPLE else read_supervisions
    for wspecifier, source in ((f"ark:{copy}", FOLDER / name), (f"ark,t:{text}", copy), (f"ark,t:{back}", text)):
        write_table(wspecifier, holder, read(f"ark:{source}"))
    assert copy.read_bytes() == (FOLDER / name).read_bytes()
    assert back.read_bytes() == text.read_bytes()


@pytest.mark.parametrize("binary", [True, False])
def test_end_to_end_supervisions(binary: bool) -> None:
    supervision = end_to_end()
    data = save(supervision, binary)
    again = Supervision.read(reader_of(data, binary))
    assert again.is_end_to_end
    assert (again.weight, again.num_sequences, again.frames_per_sequence, again.label_dim) == (0.5, 2, 3, 5)
    assert all(mine.equals(other) for mine, other in zip(again.e2e_fsts, supervision.e2e_fsts, strict=True))
    assert again.alignment_pdfs.tolist() == [1, 2, 3]
    assert save(again, binary) == data
    check_survives(Supervision.read, data, binary)


def test_the_text_of_a_supervision() -> None:
    fst = read_text_fst(reader_of(b"\n0 1 2 2 0.5\n1\n\n", False))
    text = save(Supervision(1.0, 1, 1, 4, fst), False)
    assert text == (b"<Supervision> <Weight> 1 <NumSequences> 1 <FramesPerSeq> 1 <LabelDim> 4 <End2End> F "
                    b"\n0\t1\t2\t2\t0.5\n1\n\n</Supervision> ")


def with_weights(tag: bytes, weights: bytes) -> bytes:
    """An example in binary whose deriv weights are stored otherwise."""
    data = save(first_example(), True)
    place, end = data.index(b"<DW2> "), data.index(b"</NnetChainSup>")
    return data[:place] + tag + weights + data[end:]


def test_older_forms_of_deriv_weights() -> None:
    count = len(first_example().outputs[0].indexes)
    data = with_weights(b"<DW> ", b"\1" + count.to_bytes(4, "little") + bytes([255, 51] + [0] * (count - 2)))
    weights = NnetChainExample.read(reader_of(data, True)).outputs[0].deriv_weights
    np.testing.assert_allclose(weights[:3], [1.0, 0.2, 0.0], rtol=1e-6)
    eg = NnetChainExample.read(reader_of(with_weights(b"", b""), True))
    assert eg.outputs[0].deriv_weights.shape == (0,)
    assert b"<DW2> FV \4\0\0\0\0</NnetChainSup>" in save(eg, True)
    text = save(first_example(), False).replace(b"<DW2>", b"<DW>")
    assert len(NnetChainExample.read(reader_of(text, False)).outputs[0].deriv_weights) == count


@pytest.mark.parametrize("field, value, message", [
    ("indexes", lambda v: v[1:], "indexes for"), ("indexes", lambda v: v[::-1] * [1, 2, 1] + [1, 0, 0], "order"),
    ("deriv_weights", lambda v: v[1:], "weights"), ("deriv_weights", lambda v: -v - 1, "0 or more"),
    ("deriv_weights", lambda v: v * np.nan, "0 or more")])
def test_what_does_not_fit_is_not_written_nor_read(field: str, value, message: str,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    eg = first_example()
    output = eg.outputs[0]
    eg.outputs = [dataclasses.replace(output, **{field: value(getattr(output, field))})]
    with pytest.raises(ShapeError, match=message):
        save(eg, True)
    with monkeypatch.context() as patch:
        patch.setattr(NnetChainSupervision, "_problem", lambda self: None)
        data = save(eg, True)
    with pytest.raises(FormatError, match=message):
        NnetChainExample.read(reader_of(data, True))


@pytest.mark.parametrize("old, new, message", [
    (b"<Nnet3ChainEg>", b"<Nnet3Eg>", "expected <Nnet3ChainEg>"), (b"<NumInputs> 1", b"<NumInputs> 0", "NumInputs"),
    (b"<NumOutputs> 1", b"<NumOutputs> 2000000", "NumOutputs"), (b"<End2End> F", b"<End2End> X", "T or F"),
    (b"<End2End> F", b"<End2End> T", "<Fsts>"), (b"<DW2>", b"<DW3>", "</NnetChainSup>")])
def test_wrong_fields_are_named(old: bytes, new: bytes, message: str) -> None:
    text = save(first_example(), False)
    assert old in text
    with pytest.raises(FormatError, match=message):
        NnetChainExample.read(reader_of(text.replace(old, new), False))


def test_nothing_empty_is_written() -> None:
    eg = first_example()
    with pytest.raises(ShapeError, match="needs inputs and outputs"):
        save(NnetChainExample(eg.inputs, []), True)
    with pytest.raises(ShapeError, match="0 FSTs"):
        save(Supervision(), True)
    wrong = end_to_end()
    wrong.num_sequences = 3
    with pytest.raises(ShapeError, match="2 FSTs"):
        save(wrong, True)


def test_compressing() -> None:
    eg = NnetChainExample.read(reader_of(save(first_example(), False), False))
    eg.compress()
    assert not isinstance(eg.inputs[0].features, np.ndarray)


@pytest.mark.parametrize("binary", [True, False])
def test_damaged_examples_are_refused(binary: bool) -> None:
    check_survives(NnetChainExample.read, save(first_example(), binary), binary)
