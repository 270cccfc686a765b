#!/usr/bin/env bash
# A small recognizer of English digits, dates, commands and simple sentences, of synthetic speech: from a grammar to a model
# folder. The stages of ../mini_librispeech/run.sh train it.
#
#   ./run.sh                                     everything; --dir says where, --stage N begins at one of the stages
#   ./run.sh --num-speakers 8 --num-sentences 8 --num-start 8 --flite false --e2e-minibatch 8,4,2,1 --minibatch 8,4,2,1 …
#                                                a small one, to see it run
#
# So many voices, with noise, are much for a flat start: it begins with five without noise (under --dir, start/).
# Stage -1 makes the corpus (local/make_corpus.py) and the language model, 0 to 12 are those of ../mini_librispeech/run.sh,
# 13 makes the model folder (local/make_package.sh), 14 trains its network further, on copies of the corpus after codecs
# (local/make_coded_copies.py; --codecs false does without).

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../utils/recipe.sh"

stage=-1
stop_stage=100
dir=exp
num_speakers=110
num_sentences=21          # recordings of each speaker
num_start=90              # recordings of each voice that the flat start begins with
num_text=12000            # sentences of which the language model is estimated
flite=true                # voices of flite, beside those of espeak-ng
seed=0
e2e_width=160
e2e_bottleneck=40
e2e_strides="1 1 3 3"
start_epochs=2            # of the flat start on a few voices without noise, from which that on all goes on
e2e_epochs=0.4
e2e_minibatch=8,4
copies=1                  # of each recording, at one of three speeds
num_leaves=400
num_gauss=64
ivector_dim=30
ivector_opts="--subsample 4 --num-iters 3 --num-iters-gauss 3"
width=256
bottleneck=48
strides="1 1 0 3 3 3"
num_epochs=1.8
minibatch=16,8
initial_lrate=0.003
final_lrate=0.0003
codecs=true               # stage 14; needs the packages av and soundfile
codecs_every=1            # recordings of which one is taken, itself and a copy
codecs_epochs=3
codecs_weight=0.6         # of the parameters after this, in the mean with those before
codecs_lrate=0.001
egs_opts="--num-utts-subset 50 --num-egs-diagnostic 60 --num-train-egs-combine 300"
. "$here/../utils/parse_options.sh"
export NNET3PY_PYTHON=$python

recipe=$here/../mini_librispeech
corpus=$dir/corpus
if [ $stage -le -1 ]; then
  python "$here/local/make_corpus.py" --out $corpus --num-speakers $num_speakers --num-sentences $num_sentences \
    --num-start $num_start --num-text $num_text --flite $flite --seed $seed
  python "$recipe/local/make_lm.py" --order 3 $corpus/{lexicon.txt,lm.txt,lm.arpa}
  # The digits of ../digits, as features: those of the speakers who are not in the training there.
  digits=$corpus/digits
  mkdir -p $digits
  cp "$here/../digits/data/test/"{text,utt2spk} $digits
  out=$(cd $digits && pwd)
  run $digits/log/features.log copy-feats ark:"$here/../digits/data/test/feats.ark" ark,scp:$out/feats.ark,$digits/feats.scp
fi

tests="$corpus/dev $corpus/test"
[ $flite = false ] || tests="$tests $corpus/flite"
flat_start() {   # flat_start OPTION…: the recipe with what both its parts have in common
  "$recipe/run.sh" --lexicon $corpus/lexicon.txt --lm $corpus/lm.arpa --mfcc-config "$here/conf/mfcc.conf" \
    --position-dependent-phones true --e2e-width $e2e_width --e2e-bottleneck $e2e_bottleneck --e2e-strides "$e2e_strides" \
    --e2e-copies 1 --e2e-minibatch $e2e_minibatch --e2e-frames-per-iter 100000 --copies $copies "$@"
}

if [ $stage -le 4 ]; then
  flat_start --stage $((stage < 0 ? 0 : stage)) --stop-stage $((stop_stage < 4 ? stop_stage : 4)) --dir $dir/start \
    --data $corpus/start --test-data $corpus/digits --e2e-epochs $start_epochs
  [ ! -s $dir/start/e2e/final.mdl ] ||
    run $dir/start/raw.log nnet3-am-copy --raw=true $dir/start/e2e/final.mdl $dir/start/e2e/final.raw
fi
flat_start --stage $stage --stop-stage $stop_stage --dir $dir --data $corpus/train --test-data "$tests $corpus/digits" \
  --e2e-input-model $dir/start/e2e/final.raw --e2e-epochs $e2e_epochs --num-leaves $num_leaves --num-gauss $num_gauss \
  --ivector-dim $ivector_dim --ivector-opts "$ivector_opts" --width $width --bottleneck $bottleneck --strides "$strides" \
  --num-epochs $num_epochs --minibatch $minibatch --initial-lrate $initial_lrate --final-lrate $final_lrate \
  --frames-per-iter 100000 --dropout-schedule "" --egs-opts "$egs_opts" --score-weights "8 10 12" --score-penalties "0.0"

if [ $stage -le 13 ] && [ 13 -le $stop_stage ]; then
  "$here/local/make_package.sh" --model $dir/chain --graph $dir/chain/graph --lang $dir/lang --extractor $dir/extractor \
    --conf "$here/conf" --dir $dir/model
fi

if $codecs && [ $stage -le 14 ] && [ 14 -le $stop_stage ]; then
  python "$here/local/make_coded_copies.py" --out $dir/coded --every $codecs_every --seed $seed $corpus/start $corpus/train
  run $dir/log/codecs.log nnet3py fine-tune $dir/model $dir/coded --out $dir/model_codecs --num-epochs $codecs_epochs \
    --learning-rate $codecs_lrate --l2-old 0 --speed-perturb false --held-out 0.05
  # The mean of both networks is better than either, on clean speech as well.
  for kind in model model_codecs; do
    run $dir/log/codecs_raw_$kind.log nnet3-am-copy --raw=true $dir/$kind/am/final.mdl $dir/$kind.raw
  done
  run $dir/log/codecs_average.log nnet3-average --weights=$(python -c "print(f'{1 - $codecs_weight:g}:{$codecs_weight:g}')") \
    $dir/model.raw $dir/model_codecs.raw $dir/mean.raw
  run $dir/log/codecs_model.log nnet3-am-copy --set-raw-nnet=$dir/mean.raw $dir/model/am/final.mdl $dir/model_codecs/am/final.mdl
  python - $dir/model_codecs/am/final.mdl <<'END'       # without the statistics that training leaves in a network
import sys, nnet3py
from nnet3py.network.whole_model import zero_component_stats
model = nnet3py.read_model(sys.argv[1])
zero_component_stats(model.nnet)
model.write(sys.argv[1])
END
fi
