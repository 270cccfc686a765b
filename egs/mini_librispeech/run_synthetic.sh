#!/usr/bin/env bash
# The recipe of run.sh on a corpus that local/make_corpus.py makes with espeak-ng: 2,000 sentences, 1,000 words, 8 voices.
#
#   ./run_synthetic.sh                           everything; --dir says where, --stage N begins at one of run.sh's stages
#   ./run_synthetic.sh --num-sentences 60 --num-text 1000 --e2e-minibatch 4,2,1 --minibatch 4,2,1     a small one, to see it run
#
# The models are small, so that two cores need a quarter of an hour. Decoding takes a 3-gram of the first --num-text-small
# sentences of text, rescoring a 4-gram of all.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../utils/recipe.sh"

stage=-1
stop_stage=100
dir=exp/synthetic
num_sentences=2000
num_text=40000
num_text_small=4000
seed=0
e2e_width=160
e2e_bottleneck=40
e2e_epochs=1
e2e_minibatch=8
copies=1                  # of each training sentence, at one of three speeds
num_leaves=400
num_gauss=64
ivector_dim=32
ivector_opts="--subsample 6 --num-iters 4 --num-iters-gauss 2"
width=192
bottleneck=48
num_epochs=0.45
score_weights="3 5 7 9 11 13"
score_penalties="0.0 0.5"
minibatch=16,8
initial_lrate=0.004
final_lrate=0.0004
egs_opts="--num-utts-subset 50 --num-egs-diagnostic 40 --num-train-egs-combine 300"
. "$here/../utils/parse_options.sh"
export NNET3PY_PYTHON=$python

corpus=$dir/corpus
if [ $stage -le -1 ]; then
  type espeak-ng > /dev/null 2>&1 || fail "there is no espeak-ng on the PATH (Debian: apt-get install espeak-ng)"
  python "$here/local/make_corpus.py" --out $corpus --num-sentences $num_sentences --num-text $num_text --seed $seed
  python "$here/local/make_lm.py" --order 3 --num-sentences $num_text_small $corpus/{lexicon.txt,lm.txt,small.arpa}
  python "$here/local/make_lm.py" --order 4 $corpus/{lexicon.txt,lm.txt,large.arpa}
fi
"$here/run.sh" --stage $stage --stop-stage $stop_stage --dir $dir --data $corpus/train \
  --test-data "$corpus/dev $corpus/test" --lexicon $corpus/lexicon.txt --lm $corpus/small.arpa --large-lm $corpus/large.arpa \
  --copies $copies --e2e-width $e2e_width --e2e-bottleneck $e2e_bottleneck --e2e-strides "1 1 3 3" \
  --e2e-epochs $e2e_epochs --e2e-copies 1 --e2e-minibatch $e2e_minibatch --e2e-frames-per-iter 100000 --num-leaves $num_leaves \
  --num-gauss $num_gauss --ivector-dim $ivector_dim --ivector-opts "$ivector_opts" \
  --width $width --bottleneck $bottleneck --strides "1 1 0 3 3 3" --num-epochs $num_epochs --minibatch $minibatch \
  --initial-lrate $initial_lrate --final-lrate $final_lrate \
  --frames-per-iter 150000 --dropout-schedule "" --egs-opts "$egs_opts" --score-weights "$score_weights" \
  --score-penalties "$score_penalties"
