"""Kaldi's own scripts that build trees and train, unmodified, with our launchers alone on PATH.

The scripts lie beside the checkout, or nothing is tried. Networks are tiny, and a pass over 24 utterances is all they
get: what is tried is that the scripts find every program, option and log line that they ask for.
"""
from __future__ import annotations

import re
from pathlib import Path

import pytest
from io_samples import read_table
from kaldi_scripts import NO_NORMALIZATION, PREPARE_LANG, shell, write_work_folder

from nnet3py.acoustic_model import read_model
from nnet3py.formats.holders import FLOAT_VECTOR, INT_VECTOR
from nnet3py.network.model_file import read_nnet

pytestmark = pytest.mark.slow

UTTERANCES = {"train": 24, "test": 1}        # 24 are of three speakers
JOBS = 1
LEAVES = 40
FACTOR = 3                                   # of frame rates, in chain models
ROUNDING = 1e-3                              # of sums of posteriors in float32
PREPARE = PREPARE_LANG + r"""cp -r lang_words lang_chain
steps/nnet3/chain/gen_topo.py $(cat lang_words/phones/nonsilence.csl) $(cat lang_words/phones/silence.csl) \
  > lang_chain/topo
echo 0.01 > kaldi/data/train/frame_shift
echo "--norm-means=true" > kaldi/ali_train/cmvn_opts
steps/nnet3/chain/build_tree.sh --frame-subsampling-factor 3 --context-opts "--context-width=2 --central-position=1" \
  --cmd run.pl LEAVES kaldi/data/train lang_chain kaldi/ali_train exp/tree
steps/nnet3/align_lats.sh --nj 1 --cmd run.pl --generate-ali-from-lats true \
  kaldi/data/train lang_words exp/tdnn exp/lats
""".replace("LEAVES", str(LEAVES))
COMMON = (f"--stage=-10 --cmd=run.pl --use-gpu=false --feat.cmvn-opts='{NO_NORMALIZATION}' --feat-dir=kaldi/data/train "
          "--trainer.num-epochs=1 --trainer.optimization.num-jobs-initial=1 --trainer.optimization.num-jobs-final=1 ")
CHAIN = ("--trainer.frames-per-iter=20000 --chain.leaky-hmm-coefficient=0.1 "
         "--trainer.add-option=--optimization.memory-compression-level=2 --trainer.max-param-change=2.0 ")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder: scripts, path.sh, data, lang folders, a tree for chain models, alignments and lattices."""
    pytest.importorskip("kaldifst", reason="graphs are made with kaldifst")
    folder = write_work_folder(tmp_path_factory.mktemp("work"), UTTERANCES, JOBS)
    shell(folder, PREPARE)
    return folder


def num_pdfs(work: Path, tree: str) -> int:
    return int(shell(work, f"tree-info {tree} | awk '/num-pdfs/ {{ print $2 }}'"))


def make_configs(work: Path, folder: str, layers: str) -> None:
    (work / folder / "configs").mkdir(parents=True)
    (work / folder / "configs" / "network.xconfig").write_text(f"input dim=40 name=input\n{layers}")
    shell(work, f"steps/nnet3/xconfig_to_configs.py --xconfig-file {folder}/configs/network.xconfig "
                f"--config-dir {folder}/configs")


def lda_layer(folder: str) -> str:
    return f"fixed-affine-layer name=lda input=Append(-1,0,1) affine-transform-file={folder}/configs/lda.mat\n"


def lstm_layers(pdfs: int) -> str:
    return ("fast-lstmp-layer name=lstm1 cell-dim=16 recurrent-projection-dim=8 non-recurrent-projection-dim=8 "
            f"delay=-3\noutput-layer name=output dim={pdfs}\n")


def chain_layers(pdfs: int, name: str = "output") -> str:
    """Two hidden layers, with the output of cross-entropy; ``name``: of a language's output, beside ``output``."""
    outputs = "".join(f"output-layer name={each} input=tdnn2 include-log-softmax=false dim={pdfs}\n"
                      f"output-layer name={each}-xent input=tdnn2 dim={pdfs} learning-rate-factor=5\n"
                      for each in dict.fromkeys(("output", name)))
    return ("relu-batchnorm-layer name=tdnn1 input=Append(-1,0,1) dim=24\n"
            f"relu-batchnorm-layer name=tdnn2 input=Append(-3,0,3) dim=24\n{outputs}")


def lengths_of_alignments(pattern: Path) -> dict[str, int]:
    return {key: len(alignment) for key, alignment in read_table(f"ark:gunzip -c {pattern} |", INT_VECTOR).items()}


def frames(work: Path) -> dict[str, int]:
    lines = (work / "kaldi/data/train/utt2num_frames").read_text().splitlines()
    return {key: int(length) for key, length in (line.split() for line in lines)}


def assert_trained(work: Path, folder: str, printed: str, measure: str) -> None:
    """Its model can be read, and the scripts found in its logs what they look for."""
    read_model(work / folder / "final.mdl")
    report = (work / folder / "accuracy.report").read_text().splitlines()
    assert report[0].startswith("%Iter") and re.fullmatch(r"0\t[\d.]+\t-?[\d.]+\t-?[\d.]+\t-?[\d.]+", report[1])
    assert re.search(rf"{folder}: num-iters=\d+ nj=1\.\.1 .*combine=.*{measure}:train/valid\[", printed)


def test_tree_and_lattices(work: Path) -> None:
    """build_tree.sh converts alignments of one state a phone; align_lats.sh aligns all the frames."""
    assert 28 <= num_pdfs(work, "exp/tree/tree") <= LEAVES + 28       # a leaf a phone at least; questions split them
    assert lengths_of_alignments(work / "exp/tree/ali.1.gz") == {
        key: -(-length // FACTOR) for key, length in frames(work).items()}
    found = lengths_of_alignments(work / "exp/lats/ali.1.gz")
    assert found and found.items() <= frames(work).items()


def test_weights_of_frames(work: Path) -> None:
    """best_path_weights.sh, of semi-supervised recipes: how sure lattices are of their best paths."""
    shell(work, f"""
cp exp/tdnn/tree exp/lats
echo "{NO_NORMALIZATION}" > exp/lats/cmvn_opts
steps/best_path_weights.sh --cmd run.pl --acwt 0.1 kaldi/data/train exp/lats exp/weights""")
    found = read_table(f"scp:{work}/exp/weights/weights.scp", FLOAT_VECTOR)
    assert {key: len(weights) for key, weights in found.items()}.items() <= frames(work).items() and found
    assert all(0.0 < float(weights.min()) and float(weights.max()) <= 1.0 + ROUNDING for weights in found.values())


def test_chain(work: Path) -> None:
    """chain/train.py from lattices, unconstrained, as in the mini_librispeech recipe; then get_phone_post.sh."""
    make_configs(work, "exp/chain", lda_layer("exp/chain") + chain_layers(num_pdfs(work, "exp/tree/tree")))
    printed = shell(work, f"steps/nnet3/chain/train.py {COMMON} {CHAIN} --chain.xent-regularize=0.1 "
                    "--chain.lm-opts=--num-extra-lm-states=100 --trainer.num-chunk-per-minibatch=8,2 "
                    "--egs.chunk-width=102,60 --egs.opts='--frames-overlap-per-eg 0 --constrained false "
                    "--num-utts-subset 4 --num-egs-diagnostic 8 --num-train-egs-combine 12' "
                    "--tree-dir=exp/tree --lat-dir=exp/lats --dir=exp/chain")
    assert_trained(work, "exp/chain", printed, "logprob")
    shell(work, "steps/nnet3/chain/get_phone_post.sh --nj 1 --cmd run.pl exp/tree exp/chain lang_chain "
                "kaldi/data/train exp/phone_post\nfeat-to-dim scp:exp/phone_post/phone_post.scp - | grep -x 28")


def test_flat_start(work: Path) -> None:
    """prepare_e2e.sh with a tree of tied left-biphones, a phone language model from the text, train_e2e.py."""
    shell(work, """
data=kaldi/data/train
feat-to-len scp:$data/feats.scp ark,t:- | awk '{ print $2 }' | sort -nu > $data/allowed_lengths.txt
steps/nnet3/chain/e2e/prepare_e2e.sh --nj 1 --cmd run.pl --type biphone --tie true --min-biphone-count 10 \
  --min-monophone-count 5 --ci-silence true $data lang_chain exp/e2e_tree
steps/nnet3/chain/e2e/text_to_phones.py --between-silprob 0.1 lang_chain < $data/text | cut -d' ' -f2- |
  utils/sym2int.pl lang_chain/phones.txt | awk '{ print NR, $0 }' |
  chain-est-phone-lm --num-extra-lm-states=100 ark:- exp/e2e_tree/phone_lm.fst""")
    make_configs(work, "exp/e2e", chain_layers(num_pdfs(work, "exp/e2e_tree/tree")))
    printed = shell(work, f"steps/nnet3/chain/e2e/train_e2e.py {COMMON} {CHAIN} --trainer.num-chunk-per-minibatch=1:4 "
                    "--egs.opts='--nj 1 --num-utts-subset 4 --num-egs-diagnostic 4 --num-train-egs-combine 4' "
                    "--tree-dir=exp/e2e_tree --dir=exp/e2e")
    assert_trained(work, "exp/e2e", printed, "logprob")


def test_second_generation(work: Path) -> None:
    """chain2: examples made, shuffled and spread over lists; training by train.sh. Its checks are scripts, too."""
    layers = chain_layers(num_pdfs(work, "exp/tree/tree"), "output-default")
    make_configs(work, "exp/chain2", lda_layer("exp/chain2") + layers)
    printed = shell(work, f"""
dir=exp/chain2
mkdir -p $dir/den_fsts $dir/init $dir/log
cp exp/tree/tree $dir/default.tree
gunzip -c exp/lats/ali.*.gz | ali-to-phones exp/lats/final.mdl ark:- ark:- |
  chain-est-phone-lm --num-extra-lm-states=100 ark:- $dir/den_fsts/default.phone_lm.fst
copy-transition-model exp/tree/final.mdl $dir/init/default_trans.mdl
chain-make-den-fst $dir/default.tree $dir/init/default_trans.mdl $dir/den_fsts/default.phone_lm.fst \
  $dir/den_fsts/default.den.fst $dir/den_fsts/default.normalization.fst
printf 'frame_subsampling_factor {FACTOR}\nlangs default\nmodel_left_context 5\nmodel_right_context 5\n' \
  > $dir/init/info.txt
steps/chain2/get_raw_egs.sh --cmd run.pl --lang default --cmvn-opts "{NO_NORMALIZATION}" --left-context 6 \
  --right-context 6 --frames-per-chunk 102 kaldi/data/train $dir exp/lats $dir/raw_egs
steps/chain2/process_egs.sh --cmd run.pl --num-utts-subset 6 --nj 1 $dir/raw_egs $dir/processed_egs
steps/chain2/randomize_egs.sh --frames-per-job 3000 --num-blocks 2 $dir/processed_egs $dir/egs
steps/chain2/compute_preconditioning_matrix.sh --cmd run.pl --nj 1 $dir/configs/init.raw $dir/egs $dir
nnet3-init $dir/configs/final.config $dir/init/default.raw
# Combination takes batches of 64, which these few examples do not fill.
for i in $(seq 16); do sed "s/ /-$i /" $dir/egs/train_subset.scp; done > $dir/more.scp
mv $dir/more.scp $dir/egs/train_subset.scp
steps/chain2/train.sh --cmd run.pl --use-gpu no --num-epochs 1 --num-jobs-initial 1 --num-jobs-final 2 \
  --minibatch-size 8,2 --srand 1 $dir/egs $dir""")
    read_model(work / "exp/chain2/final.mdl")
    assert re.search(r"exp/chain2: num-iters=\d+ nj=1\.\.2 num-params=.* combine=", printed)
    logs = [path.read_text() for path in (work / "exp/chain2/log").glob("diagnostic_*.log")]
    assert logs and all("Overall average objective function for 'output-default' is " in log for log in logs)


def test_frame_level(work: Path) -> None:
    """train_dnn.py, and train_rnn.py with an LSTM."""
    pdfs = num_pdfs(work, "kaldi/ali_train/tree")
    make_configs(work, "exp/dnn", "relu-batchnorm-layer name=tdnn1 input=Append(-2,0,2) dim=24\n"
                                  f"output-layer name=output dim={pdfs}\n")
    options = (f"{COMMON} --trainer.samples-per-iter=2000 --egs.opts='--nj 1 --num-utts-subset 4' "
               "--ali-dir=kaldi/ali_train --lang=lang_words ")
    printed = shell(work, f"steps/nnet3/train_dnn.py {options} --egs.frames-per-eg=4 --dir=exp/dnn")
    assert_trained(work, "exp/dnn", printed, "loglike")
    make_configs(work, "exp/rnn", lda_layer("exp/rnn") + lstm_layers(pdfs))
    printed = shell(work, f"steps/nnet3/train_rnn.py {options} --egs.chunk-width=20 --egs.chunk-left-context=10 "
                    "--trainer.deriv-truncate-margin=8 --trainer.optimization.shrink-value=0.99 "
                    "--trainer.rnn.num-chunk-per-minibatch=16,4 --dir=exp/rnn")
    assert_trained(work, "exp/rnn", printed, "loglike")


@pytest.mark.parametrize("dense", ["false", "true"])
def test_raw_networks(work: Path, dense: str) -> None:
    """train_raw_dnn.py on features; train_raw_rnn.py on pdfs, an LSTM."""
    pdfs = num_pdfs(work, "kaldi/ali_train/tree")
    shell(work, """mkdir -p exp/targets
ali-to-pdf kaldi/ali_train/final.mdl "ark:gunzip -c kaldi/ali_train/ali.1.gz |" \
  ark,scp:exp/targets/all.ark,exp/targets/targets.scp""")
    folder = f"exp/raw_{dense}"
    targets = "kaldi/data/train/feats.scp" if dense == "true" else "exp/targets/targets.scp"
    options = (f"{COMMON} --nj=1 --targets-scp={targets} --use-dense-targets={dense} --trainer.samples-per-iter=2000 "
               f"--egs.opts='--nj 1 --num-utts-subset 4' --dir={folder} ")
    if dense == "true":
        make_configs(work, folder, "relu-batchnorm-layer name=tdnn1 dim=24\noutput-layer name=output dim=40 "
                                   "include-log-softmax=false objective-type=quadratic\n")
        shell(work, f"steps/nnet3/train_raw_dnn.py {options} --egs.frames-per-eg=4")
    else:
        make_configs(work, folder, lstm_layers(pdfs))
        shell(work, f"echo num_targets={pdfs} >> {folder}/configs/vars\n"
                    f"steps/nnet3/train_raw_rnn.py {options} --egs.chunk-width=20 --egs.chunk-left-context=10 "
                    "--trainer.rnn.num-chunk-per-minibatch=16,4")
    read_nnet(work / folder / "final.raw")
