#!/usr/bin/env bash
# Spoken digits with pitch among the features, trained without and with noise and rooms, and tested with both; espeak-ng speaks.
#
#   ./run_noisy_digits.sh                        everything; --dir says where, --stage N begins at one of run.sh's stages
#
# What the flat start and the tree are made of is the same, so that the two networks differ in what they were trained on.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../utils/recipe.sh"

stage=-1
stop_stage=100
dir=exp/noisy_digits
seed=0
num_train=600
num_test=120
e2e_epochs=5
e2e_minibatch=8
num_leaves=100
num_epochs=4
minibatch=16,8
ivector_dim=0             # of i-vectors, which do not see pitch; 0: none
ivector_opts="--subsample 6 --num-iters 4 --num-iters-gauss 2"
egs_opts="--num-utts-subset 30 --num-egs-diagnostic 30 --num-train-egs-combine 200"
. "$here/../utils/parse_options.sh"
export NNET3PY_PYTHON=$python

mkdir -p $dir
corpus=$(cd $dir && pwd)/corpus
if [ $stage -le -1 ]; then
  python "$here/local/make_digits.py" --out $corpus --num-train $num_train --num-test $num_test --seed $seed
  python "$here/local/make_lm.py" --order 2 $corpus/lexicon.txt $corpus/lm.txt $corpus/2.arpa
fi
digits() {   # digits OPTION…: run.sh on the corpus
  "$here/run.sh" --dir $dir --data $corpus/train --test-data "$corpus/clean $corpus/noisy" --lexicon $corpus/lexicon.txt \
    --lm $corpus/2.arpa --pitch-config $here/conf/online_pitch.conf --e2e-width 128 --e2e-bottleneck 32 \
    --e2e-strides "1 1 3 3" --e2e-epochs $e2e_epochs --e2e-copies 1 --e2e-minibatch $e2e_minibatch --e2e-frames-per-iter 60000 \
    --copies 1 --num-leaves $num_leaves --num-gauss 32 --ivector-dim $ivector_dim --ivector-opts "$ivector_opts" \
    --width 160 --bottleneck 40 --strides "1 1 0 3 3" --num-epochs $num_epochs --minibatch $minibatch \
    --initial-lrate 0.004 --final-lrate 0.0004 --frames-per-iter 100000 --dropout-schedule "" \
    --egs-opts "$egs_opts" --score-weights "7 9 11" --score-penalties "0.0" "$@"
}
digits --stage $stage --stop-stage $stop_stage
if [ $stop_stage -ge 8 ]; then
  rm -rf $dir/chain_clean
  mv $dir/chain $dir/chain_clean
  mv $dir/results.txt $dir/results_clean.txt
  [ $stage -ge 6 ] || stage=6
  digits --stage $stage --stop-stage $stop_stage --noises $corpus/noises.scp --rirs $corpus/rirs.scp
  for name in clean noisy; do
    for trained in _clean ""; do
      echo "test $name, trained $([ -n "$trained" ] && echo without || echo with) noise: $(grep "^$name," $dir/results$trained.txt |
        sed 's/.*%WER/%WER/')"
    done
  done
fi
