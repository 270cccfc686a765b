#!/usr/bin/env python3
"""Write what Kaldi's utils/mkgraph_lookahead.sh needs to make a lookahead graph for a model that has a static one.

usage: make_lookahead.py MODEL_FOLDER OUT

OUT gets lexicon.txt, exp/tree and lm.txt, all taken from the static graph: pronunciations, the tree, and sentences
drawn from it, of which a language model can be estimated. Then, with the programs of bin/ on PATH:

  prepare-lang --silence-phones=SIL --position-dependent-phones=true OUT/lexicon.txt OUT/lang
  ../mini_librispeech/local/make_lm.py --order 3 OUT/lexicon.txt OUT/lm.txt OUT/lm.arpa
  arpa2fst --disambig-symbol='#0' --read-symbol-table=OUT/lang/words.txt OUT/lm.arpa OUT/lang/G.fst
  utils/mkgraph_lookahead.sh --self-loop-scale 1.0 OUT/lang OUT/exp OUT/exp/graph
"""
from __future__ import annotations

import shutil
import sys
from pathlib import Path

from nnet3py.acoustic_model import read_model
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.fine_tuning.graph_words import draw_sentences
from nnet3py.fine_tuning.model import read_parts
from nnet3py.io.object_files import write_object
from nnet3py.recognition.model_folder import read_model_folder
from nnet3py.transducers.fst_text import read_fst_file

NUM_SENTENCES = 30_000


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, out = read_model_folder(sys.argv[1]), Path(sys.argv[2])
    (out / "exp").mkdir(parents=True, exist_ok=True)
    model, words = read_model(folder.model).transition_model, SymbolTable.read(folder.words)
    parts = read_parts(folder, {"phones": str(Path(folder.graph).with_name("phones.txt"))})
    assert parts.lexicon is not None and parts.tree is not None, parts.notes
    (out / "lexicon.txt").write_text("".join(f"{word} {' '.join(phones)}\n" for word, phones in parts.lexicon))
    write_object(str(out / "exp" / "tree"), parts.tree.write)
    shutil.copy(folder.model, out / "exp" / "final.mdl")
    (out / "exp" / "frame_subsampling_factor").write_text("3\n")
    drawn = draw_sentences(read_fst_file(folder.graph), model, NUM_SENTENCES, seed=1)
    (out / "lm.txt").write_text("".join(words.text(sentence.words) + "\n" for sentence in drawn))


if __name__ == "__main__":
    main()
