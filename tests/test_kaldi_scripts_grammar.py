"""Kaldi's scripts make the parts of a grammar with our programs, unmodified; decoding with them, and with one graph.

The scripts lie beside the checkout, or nothing is tried.
"""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from graph_systems import context_system
from kaldi_scripts import copy_scripts, run
from paths import ROOT

from nnet3py.acoustic_model import AcousticModel
from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR
from nnet3py.hmm.topology import chain_topology
from nnet3py.io.object_files import write_object
from nnet3py.io.tables import SequentialReader, TableWriter
from nnet3py.network.nnet import Nnet
from nnet3py.transducers.fst_text import read_fst_file

pytestmark = pytest.mark.slow

NUM_UTTERANCES = 6
SCRIPT = r"""
mkdir -p dict
printf 'anna a c a\nbob b b\ncall a b\nplease b c\nthe c\n<unk> SIL\n' > dict/lexicon.txt
printf 'SIL\n' | tee dict/silence_phones.txt > dict/optional_silence.txt
printf 'a\nb\nc\n' > dict/nonsilence_phones.txt
: > dict/extra_questions.txt
cp -r dict dict_parts
printf '#nonterm:name\n' > dict_parts/nonterminals.txt
utils/prepare_lang.sh --position-dependent-phones false dict "<unk>" tmp/lang lang
utils/prepare_lang.sh --position-dependent-phones false dict_parts "<unk>" tmp/lang_top lang_top
cp -r lang_top lang_name
compile() {
  fstcompile --isymbols=$1/words.txt --osymbols=$1/words.txt --keep_isymbols=false --keep_osymbols=false |
    fstarcsort --sort_type=ilabel > $1/G.fst
}
compile lang_top <<END
0 1 call call
1 2 #nonterm:name <eps>
2 3 please please
0 3 #nonterm:name <eps> 1.0
3 0.25
END
compile lang_name <<END
0 1 #nonterm_begin <eps>
1 2 anna anna
1 2 bob bob 0.5
2 3 #nonterm_end <eps>
3
END
compile lang <<END
0 1 call call
1 2 anna anna
1 2 bob bob 0.5
2 3 please please
0 3 anna anna 1.0
0 3 bob bob 1.5
3 0.25
END
for lang in lang lang_top lang_name; do utils/mkgraph.sh --self-loop-scale 1.0 $lang model graph_$lang; done
offset=$(cat lang_top/phones/nonterm_phones_offset.int)
number=$(awk '$1 == "#nonterm:name" { print $2 }' lang_top/phones.txt)
for written in true false; do
  make-grammar-fst --nonterm-phones-offset=$offset --write-as-grammar=$written graph_lang_top/HCLG.fst \
    $number graph_lang_name/HCLG.fst $written.fst
done
options="--acoustic-scale=1.0 --beam=30 model/final.mdl"
nnet3-latgen-faster $options graph_lang/HCLG.fst ark:feats.ark ark:lat.1 ark:words.1 ark:ali.1
nnet3-latgen-grammar $options true.fst ark:feats.ark ark:lat.2 ark:words.2 ark:ali.2
nnet3-latgen-faster $options false.fst ark:feats.ark ark:lat.3 ark:words.3 ark:ali.3
mkdir data
copy-feats ark:feats.ark ark,scp:data/feats.ark,data/feats.scp
awk '{ print $1, $1 }' data/feats.scp | tee data/utt2spk > data/spk2utt
compute-cmvn-stats ark:feats.ark ark,scp:data/cmvn.ark,data/cmvn.scp
echo "--norm-means=false --norm-vars=false" > model/cmvn_opts
cp lang_top/phones.txt model
cp true.fst graph_lang_top/HCLG.gra
steps/nnet3/decode_grammar.sh --nj 1 --cmd run.pl --acwt 1.0 --beam 30 --min-active 1 --skip-scoring true \
  --skip-diagnostics true graph_lang_top data model/decode
lattice-best-path "ark:gunzip -c model/decode/lat.1.gz |" ark:words.4 ark:ali.4
"""


def test_mkgraph_and_decoding(tmp_path: Path) -> None:
    pytest.importorskip("kaldifst", reason="graphs are made with kaldifst")
    copy_scripts(tmp_path)
    (tmp_path / "path.sh").write_text(f"export LC_ALL=C\nexport PATH={tmp_path}/utils:{ROOT}/bin:/usr/bin:/bin\n")
    tree, transitions = context_system(chain_topology([1, 2, 3, 4]), 2, 1, 0)
    (tmp_path / "tools").mkdir()
    (tmp_path / "model").mkdir()
    write_object(str(tmp_path / "model" / "tree"), tree.write)
    network = Nnet.from_config(f"input-node name=input dim={transitions.num_pdfs}\n"
                               "output-node name=output input=input objective=linear\n", seed=0)
    AcousticModel(transitions, network, np.zeros(0, np.float32)).write(str(tmp_path / "model" / "final.mdl"))
    random = np.random.default_rng(1)
    with TableWriter(f"ark:{tmp_path}/feats.ark", FLOAT_MATRIX) as writer:
        for number in range(NUM_UTTERANCES):
            writer.write(f"u{number}", random.normal(0.0, 3.0, (12, transitions.num_pdfs)).astype(np.float32))
    run(tmp_path, "bash", "-euc", f". ./path.sh\n{SCRIPT}")
    found = []
    for number in (1, 2, 3, 4):
        tables = []
        for name in ("words", "ali"):
            with SequentialReader(f"ark:{tmp_path}/{name}.{number}", INT_VECTOR) as reader:
                tables.append({key: value.tolist() for key, value in reader})
        found.append(tables)
    assert found[0] == found[1] == found[2] == found[3]
    assert len(found[0][0]) == NUM_UTTERANCES and len({tuple(words) for words in found[0][0].values()}) > 1
    assert read_fst_file(str(tmp_path / "false.fst")).num_arcs > 0
