#!/usr/bin/env bash
# The recipe of run.sh on the spoken digit strings of egs/digits, from their features on: without other speeds, as there is
# no sound. A flat start takes the place of the alignments that the digits have; the language models are of their text.
#
#   ./run_digits.sh                              everything; --dir says where, --stage N begins at one of run.sh's stages

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../utils/recipe.sh"

stage=-1
stop_stage=100
dir=exp/digits
e2e_epochs=4
num_epochs=2
ivector_opts="--subsample 6 --num-iters 4 --num-iters-gauss 2"
. "$here/../utils/parse_options.sh"
export NNET3PY_PYTHON=$python

mkdir -p $dir
corpus=$(cd $dir && pwd)/corpus
if [ $stage -le -1 ]; then
  "$here/../digits/local/make_kaldi_dirs.sh" --dir $corpus
  cut -d' ' -f2- $corpus/data/train/text > $corpus/lm.txt
  for order in 2 3; do
    python "$here/local/make_lm.py" --order $order $corpus/lang/lexicon.txt $corpus/lm.txt $corpus/$order.arpa
  done
fi
"$here/run.sh" --stage $stage --stop-stage $stop_stage --dir $dir --data $corpus/data/train --test-data $corpus/data/test \
  --lexicon $corpus/lang/lexicon.txt --lm $corpus/2.arpa --large-lm $corpus/3.arpa \
  --e2e-width 160 --e2e-bottleneck 40 --e2e-strides "1 1 3 3" --e2e-epochs $e2e_epochs --e2e-minibatch 8 \
  --e2e-frames-per-iter 60000 --num-leaves 100 --num-gauss 32 --ivector-dim 24 --ivector-opts "$ivector_opts" \
  --width 192 --bottleneck 48 \
  --strides "1 1 0 3 3 3" --num-epochs $num_epochs --chunk-width 150,110,90 --minibatch 32,16 --frames-per-iter 150000 \
  --dropout-schedule "" --egs-opts "--num-utts-subset 24 --num-egs-diagnostic 60 --num-train-egs-combine 200" \
  --score-weights "7 9 11 13" --score-penalties "0.0 0.5"
