"""N-gram models as OpenFst stores them: written and read, the same arcs as walked one by one, used in place; damage."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fst_cases import WORDS, read, trigram, written

from nnet3py.decoding.composed_graphs import LookaheadGraph
from nnet3py.decoding.lattice_decoder import Decoder
from nnet3py.decoding.lookahead import GrammarTables, Lookahead
from nnet3py.decoding.options import DecoderOptions
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.fst.text import symbols_of, with_symbols
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import FileContent, read_object
from nnet3py.io.streams import open_input, open_output
from nnet3py.io.tables import SequentialReader
from nnet3py.transducers.fst import NO_WEIGHT, Fst, has_output_symbols
from nnet3py.transducers.fst_text import read_fst_file
from nnet3py.transducers.ngram_fst import NgramFst

DATA = Path(__file__).parent / "data" / "decoding"
MUTATIONS = 300


def sentences(fst: Fst, longest: int) -> dict[tuple[int, ...], float]:
    """The cheapest cost of all sentences, walked arc by arc."""
    found: dict[tuple[int, ...], float] = {}
    waiting: list[tuple[int, tuple[int, ...], float]] = [(fst.start, (), 0.0)]
    while waiting:
        state, words, cost = waiting.pop()
        if fst.final_weights[state] != NO_WEIGHT:
            found[words] = min(found.get(words, np.inf), cost + float(fst.final_weights[state]))
        for arc in range(fst.arc_starts[state], fst.arc_starts[state + 1]):
            label = int(fst.input_labels[arc])
            if len(words) + (label > 0) <= longest:
                waiting.append((int(fst.next_states[arc]), words + (label,) * (label > 0),
                                cost + float(fst.weights[arc])))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_what_is_written_is_read(seed: int) -> None:
    fst = trigram(seed)
    data = written(fst, "ngram")
    found = read(data)
    assert found.stored is not None and found.stored.kind == "ngram" and found.start == 1
    assert (found.num_states, found.num_arcs) == (fst.num_states, fst.num_arcs)
    assert sentences(found, 3) == pytest.approx(sentences(fst, 3))
    assert written(found, "ngram") == data
    assert (np.sort(found.weights) == np.sort(fst.weights)).all()


def test_in_a_file_it_stays_there(tmp_path: Path) -> None:
    path = tmp_path / "G.fst"
    path.write_bytes(written(with_symbols(trigram(1), WORDS, WORDS, "words"), "ngram") + b"trailing")
    with open_input(path) as stream:
        ngram = NgramFst.of_content(FileContent(stream))
    assert ngram is not None and not ngram.future_words.flags.writeable and not ngram.future_words.flags.owndata
    assert ngram.to_fst().equals(read_fst_file(path))
    assert symbols_of(read_fst_file(path)) == (WORDS, WORDS) and has_output_symbols(path)
    table = SymbolTable.of_fst_file(path)
    assert table is not None and table.names == {number: name.decode() for name, number in WORDS.items()}
    assert table.text([7, 2]) == "c c ö" and table["ö"] == 2 and "x" not in table and len(table) == 4
    for each in (table, SymbolTable(table.names)):
        assert each.first_beyond(max(table.names) + 1) == "" and each.first_beyond(2) == "ö"
    assert SymbolTable({0: "<eps>", 3: "#0", 5: "a", 4: "b"}).first_beyond(2) == "b"
    with pytest.raises(FormatError, match="no word of number 3 in"):
        table.text([3])
    with pytest.raises(FormatError, match="no word 'x' among the 4 of"):
        table["x"]
    with open_input(DATA / "G.fst") as stream:
        assert NgramFst.of_content(FileContent(stream)) is None
    assert SymbolTable.of_fst_file(DATA / "G.fst") is None and not has_output_symbols(DATA / "G.fst")


def test_composed_as_its_arcs_are(tmp_path: Path) -> None:
    """A model where it lies in a file, and the same as a table of arcs: the same lattices."""
    model = read_object(DATA / "trans.mdl", TransitionModel.read)
    disambig = [int(number) for number in (DATA / "disambig_tid.int").read_text().split()]
    hcl = Lookahead.of_fst(read_fst_file(DATA / "HCL.fst"))
    assert hcl.label_of_word is not None
    grammar = trigram(3, words=10)                 # of labels, some of which stand for words
    with open_output(tmp_path / "G.fst") as stream:
        stream.write(written(grammar, "ngram"))
    options = DecoderOptions(beam=12.0, lattice_beam=4.0)
    tables = GrammarTables.read(tmp_path / "G.fst")
    assert tables.is_ngram and tables.largest_word() == 10
    place, plain = (Decoder(LookaheadGraph(hcl, g, disambig, model), model, options) for g in (
        tables, GrammarTables.of_fst(tables.to_fst())))
    with SequentialReader(f"ark:{DATA / 'loglikes.ark'}", FLOAT_MATRIX) as reader:
        for _, matrix in reader:
            one, other = place.decode(matrix), plain.decode(matrix)
            assert one.words.tolist() == other.words.tolist() and len(one.words)
            assert one.lattice.equals(other.lattice)


@pytest.mark.parametrize(("change", "message"), [
    (lambda arcs: arcs + [(1, 1, 0.5, 0)], "two arcs of one word"),
    (lambda arcs: arcs + [(0, 0, 0.5, 1)], "3 states have 3 arcs without label"),
    (lambda arcs: [arc for arc in arcs if arc[1]], "3 states have 0 arcs without label"),
    (lambda arcs: [(s, word, c, 0 if (s, word) == (1, 2) else t) for s, word, c, t in arcs], "to the longest history"),
    (lambda arcs: [(s, label, c, 2 if label == 1 else t) for s, label, c, t in arcs], "different words"),
])
def test_what_is_no_ngram_model(change, message: str) -> None:
    arcs = [(1, 0, 0.1, 0), (2, 0, 0.2, 0), (0, 1, 1.0, 0), (0, 2, 1.0, 2), (1, 1, 0.5, 0), (1, 2, 0.5, 2)]
    sources, labels, costs, targets = zip(*change(arcs), strict=True)
    with pytest.raises(FormatError, match=message):
        written(Fst.from_arcs(1, [0.0, np.inf, 0.0], sources, labels, labels, costs, targets), "ngram")


def test_damage_is_one_error() -> None:
    content, rng, refused = written(with_symbols(trigram(2), WORDS, WORDS), "ngram"), np.random.default_rng(0), 0
    for _ in range(MUTATIONS):
        damaged = bytearray(content[:int(rng.integers(1, len(content)))] if rng.random() < 0.3 else content)
        for place in rng.integers(0, len(damaged), 3):
            damaged[place] = int(rng.integers(0, 256))
        try:
            read(bytes(damaged))
        except Nnet3Error:
            refused += 1
    assert refused > MUTATIONS // 2
