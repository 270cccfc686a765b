#!/usr/bin/env bash
# From sound and transcripts to word error rates: flat start, tree, i-vectors, a chain TDNN-F, decoding, rescoring.
#
#   run.sh --data data/train --test-data "data/dev data/test" --lexicon lexicon.txt --lm small.arpa --large-lm large.arpa
#   run.sh --stage 9 …                           from a stage on; training goes on where it was interrupted
#
# The data are Kaldi's directories: wav.scp (or feats.scp, which are then taken as they are), text, utt2spk, perhaps
# segments. run_librispeech.sh, run_synthetic.sh and run_digits.sh call this with corpora. What it makes lies under --dir.
# Language model weight and word penalty are those that are best on the first test directory. Further options stand below.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../utils/recipe.sh"

stage=0
stop_stage=100
data=
test_data=
lexicon=
lm=
large_lm=                 # blank: lattices are not rescored
silence_phones=SIL        # with commas; the first one may stand between words
unknown_word=             # of the lexicon, for words that it lacks
position_dependent_phones=false      # needed for exact times of words
dir=exp
mfcc_config=$here/conf/mfcc.conf
pitch_config=             # such as conf/online_pitch.conf: pitch is appended to the MFCC; blank: no pitch
noises=                   # a list of noises, NAME FILE: the network is trained with noise and rooms; blank: without
rirs=                     # a list of impulse responses of rooms, for --noises
speeds="0.9 1.0 1.1"
copies=                   # of each utterance, at so many of these speeds; blank: at all
e2e_width=256
e2e_bottleneck=64
e2e_strides="1 1 0 3 3 3"
e2e_epochs=3
e2e_copies=2              # of each utterance, at speeds that give it one of a few lengths
e2e_minibatch=16,8
e2e_frames_per_iter=150000
e2e_initial_lrate=0.002
e2e_final_lrate=0.0002
e2e_input_model=          # of the same lexicon, to go on from; blank: from a random network
num_leaves=3500
num_gauss=512
ivector_dim=100           # 0: without i-vectors
ivector_opts=             # further options of local/train_ivectors.sh
width=768
bottleneck=96
strides="1 1 1 0 3 3 3 3 3 3 3 3"
num_epochs=6
chunk_width=140,100,160
minibatch=64,32
frames_per_iter=300000
initial_lrate=0.002
final_lrate=0.0002
dropout_schedule="0,0@0.20,0.3@0.50,0"
num_jobs_initial=1
num_jobs_final=1
egs_opts="--num-utts-subset 50 --num-egs-diagnostic 100 --num-train-egs-combine 300"
score_weights="7 8 9 10 11 12 13 14 15 16 17"
score_penalties="0.0 0.5 1.0"
srand=1
use_gpu=optional
cmd=                      # such as "queue.pl --mem 2G": how training jobs are started; none: processes here
. "$here/../utils/parse_options.sh"
export NNET3PY_PYTHON=$python

for name in data test_data lexicon lm; do
  [ -n "${!name}" ] || fail "--${name//_/-} is needed; see $0 --help"
done
local=$here/local
train=$dir/data/train     # as it is; train_e2e and train_sp: at other speeds
lang=$dir/lang
tests=                    # names of the test directories
for folder in $test_data; do tests="$tests $(basename "$folder")"; done
first=$(basename "${test_data%% *}")
start=$SECONDS

begin() {   # begin STAGE WHAT: whether the stage is to be done
  [ $stage -le $1 ] && [ $1 -le $stop_stage ] || return 1
  echo "$0: stage $1 ($((SECONDS - start)) s): $2"
}

sound() { [ -s $train/wav.scp ]; }     # whether there is sound that can be made faster and slower

if begin 0 "data"; then
  need $lexicon $lm $data/{text,utt2spk}
  has_extra decode || fail "graphs need more packages ($extra_hint)"
  $local/prepare_data.sh --from $data --to $train
  $local/make_features.sh --data $train --config $mfcc_config --pitch-config "$pitch_config"
  for folder in $test_data; do
    name=$(basename "$folder")
    [ $name != train ] || fail "a test directory cannot be named train"
    $local/prepare_data.sh --from $folder --to $dir/data/$name
    $local/make_features.sh --data $dir/data/$name --config $mfcc_config --pitch-config "$pitch_config"
  done
  echo "$0: $(wc -l < $train/feats.scp) utterances to train on, to test: $(for name in $tests; do
    echo "$(wc -l < $dir/data/$name/feats.scp) in $name"; done | paste -sd,)"
fi

if begin 1 "lang folder, grammar"; then
  run $lang/log/lang.log prepare-lang --silence-phones="$silence_phones" ${unknown_word:+--unknown-word="$unknown_word"} \
    --position-dependent-phones=$position_dependent_phones $lexicon $lang
  unzipped() { case $1 in *.gz) echo "gunzip -c $1 |" ;; *) echo "$1" ;; esac; }
  run $lang/log/grammar.log arpa2fst --disambig-symbol='#0' --read-symbol-table=$lang/words.txt "$(unzipped $lm)" $lang/G.fst
  if [ -n "$large_lm" ]; then
    number() { awk -v word="$1" '$1 == word { print $2 }' $lang/words.txt; }
    oov=
    [ ! -s $lang/oov.int ] || oov=--unk-symbol=$(cat $lang/oov.int)
    run $lang/log/large.log arpa-to-const-arpa --bos-symbol=$(number '<s>') --eos-symbol=$(number '</s>') $oov \
      "case $large_lm in *.gz) gunzip -c $large_lm ;; *) cat $large_lm ;; esac | $local/arpa_to_numbers.awk $lang/words.txt - |" \
      $lang/G.carpa
  fi
fi

if begin 2 "other speeds and volumes"; then
  if sound; then
    $local/prepare_data.sh --from $train --to ${train}_sp --speeds "$speeds" --copies "$copies"
    $local/make_features.sh --data ${train}_sp --config $mfcc_config --pitch-config "$pitch_config"
    run ${train}_e2e/log/lengths.log python $local/allowed_lengths.py $train/utt2num_frames ${train}_e2e/allowed_lengths \
      ${train}_e2e/speeds --copies $e2e_copies
    $local/prepare_data.sh --from $train --to ${train}_e2e --utt2speed ${train}_e2e/speeds
    $local/make_features.sh --data ${train}_e2e --config $mfcc_config --pitch-config "$pitch_config"
  else
    echo "$0: features without sound stay as they are"
    for name in sp e2e; do
      $local/prepare_data.sh --from $train --to ${train}_$name
      $local/make_features.sh --data ${train}_$name
    done
    run ${train}_e2e/log/lengths.log python $local/allowed_lengths.py $train/utt2num_frames ${train}_e2e/allowed_lengths
  fi
  echo "$0: lengths of utterances in end-to-end training: $(cat ${train}_e2e/allowed_lengths)"
fi

e2e=$dir/e2e
e2e_tree=$dir/e2e_tree
if begin 3 "what a flat start needs: tree without context, graphs, examples"; then
  $local/prepare_e2e.sh --stage tree --lang $lang --data ${train}_e2e --dir $e2e --tree $e2e_tree
  $local/make_network.sh --data ${train}_e2e --tree $e2e_tree --dir $e2e --width $e2e_width --bottleneck $e2e_bottleneck \
    --strides "$e2e_strides"
  $local/prepare_e2e.sh --stage egs --lang $lang --data ${train}_e2e --dir $e2e --tree $e2e_tree \
    --frames-per-iter $e2e_frames_per_iter
  rm -f $e2e/*.mdl $e2e/driver_options.json
fi

train() {   # train OPTION…: what both trainings have in common
  train-chain ${cmd:+--cmd="$cmd"} --use-gpu=$use_gpu --chain.leaky-hmm-coefficient=0.1 --chain.l2-regularize=0.00005 \
    --chain.xent-regularize=0.1 --trainer.srand=$srand --trainer.max-param-change=2.0 --cleanup.remove-egs=false \
    --trainer.optimization.num-jobs-initial=$num_jobs_initial --trainer.optimization.num-jobs-final=$num_jobs_final "$@"
}

if begin 4 "training from a flat start"; then
  train --feat-dir=${train}_e2e --feat.cmvn-opts="--norm-means=true --norm-vars=false" --tree-dir=$e2e_tree \
    --egs.dir=$e2e/egs --chain.phone-lm=$e2e_tree/phone_lm.fst --trainer.num-epochs=$e2e_epochs \
    --trainer.optimization.initial-effective-lrate=$e2e_initial_lrate \
    --trainer.optimization.final-effective-lrate=$e2e_final_lrate \
    ${e2e_input_model:+--trainer.input-model="$e2e_input_model"} \
    --trainer.num-chunk-per-minibatch=$e2e_minibatch --dir=$e2e || fail "training failed (its logs: $e2e/log)"
  need $e2e/final.mdl
fi

if begin 5 "alignments"; then
  $local/align.sh --data ${train}_sp --lang $lang --model $e2e --dir $dir/e2e_lats
fi

tree=$dir/tree
if begin 6 "tree"; then
  $local/build_tree.sh --data ${train}_sp --lang $lang --ali $dir/e2e_lats --dir $tree --num-leaves $num_leaves
fi

trained=${train}_sp       # what i-vectors and the network are trained on: the same frames, perhaps with noise
if [ -n "$noises" ]; then
  trained=${train}_noisy
  if [ $stage -le 6 ] && [ 6 -le $stop_stage ]; then
    $local/prepare_data.sh --from ${train}_sp --to $trained
    rm -f $trained/feats.scp
    cp ${train}_sp/utt2speed $trained
    run $trained/log/augment.log python $local/augment.py --noises $noises --rirs $rirs --seed $srand $trained/wav.scp
    run $trained/log/sounds.log wav-copy scp:$trained/wav.scp ark,scp:$trained/wav.ark,$trained/wav.copied
    mv $trained/wav.copied $trained/wav.scp
    $local/make_features.sh --data $trained --config $mfcc_config --pitch-config "$pitch_config"
  fi
fi

ivectors() { [ $ivector_dim -eq 0 ] || echo $dir/ivectors/$1; }      # ivectors NAME: their folder, if there are any

without_pitch() {   # without_pitch DATA: a data directory of the features that i-vectors are made of
  [ -s $1/pitch_dim ] || { echo $1; return; }
  local last=$(($(feat-to-dim --print-args=false scp:$1/feats.scp -) - $(cat $1/pitch_dim) - 1))
  mkdir -p $1_without_pitch
  cp $1/{text,utt2spk,spk2utt,utt2num_frames} $1_without_pitch
  sed "s/\$/[:,0:$last]/" $1/feats.scp > $1_without_pitch/feats.scp
  run $1_without_pitch/log/cmvn.log compute-cmvn-stats --spk2utt=ark:$1/spk2utt scp:$1_without_pitch/feats.scp \
    ark,scp:$1_without_pitch/cmvn.ark,$1_without_pitch/cmvn.scp
  echo $1_without_pitch
}

if begin 7 "i-vectors"; then
  if [ $ivector_dim -gt 0 ]; then
    base=$(without_pitch $trained)
    $local/train_ivectors.sh --data $base --dir $dir/extractor --num-gauss $num_gauss --ivector-dim $ivector_dim \
      $ivector_opts
    $local/extract_ivectors.sh --data $base --extractor $dir/extractor --dir $(ivectors $(basename $trained)) --utts-per-speaker 2
    for name in $tests; do
      $local/extract_ivectors.sh --data $(without_pitch $dir/data/$name) --extractor $dir/extractor --dir $(ivectors $name)
    done
  fi
fi

chain=$dir/chain
if begin 8 "network"; then
  rm -rf $chain
  $local/make_network.sh --data $trained --tree $tree --dir $chain --width $width --bottleneck $bottleneck \
    --strides "$strides" --ivectors "$(ivectors $(basename $trained))"
fi

if begin 9 "training"; then
  train --feat-dir=$trained --feat.cmvn-opts="--norm-means=false --norm-vars=false" --tree-dir=$tree \
    --lat-dir=$dir/e2e_lats --chain.alignment-subsampling-factor=1 --chain.left-tolerance=1 --chain.right-tolerance=1 \
    --chain.lm-opts="--num-extra-lm-states=2000" ${ivector_dim:+$([ $ivector_dim -eq 0 ] ||
      echo "--feat.online-ivector-dir=$(ivectors $(basename $trained))")} \
    --egs.chunk-width=$chunk_width --egs.opts="$egs_opts" --trainer.frames-per-iter=$frames_per_iter \
    --trainer.num-chunk-per-minibatch=$minibatch --trainer.num-epochs=$num_epochs \
    --trainer.optimization.initial-effective-lrate=$initial_lrate \
    --trainer.optimization.final-effective-lrate=$final_lrate \
    ${dropout_schedule:+--trainer.dropout-schedule="$dropout_schedule"} --dir=$chain || fail "training failed (its logs: $chain/log)"
  need $chain/final.mdl
fi

if begin 10 "decoding"; then
  run $chain/log/graph.log make-graph --self-loop-scale=1.0 $lang $lang/G.fst $tree/tree $chain/final.mdl $chain/graph
  for name in $tests; do
    $local/decode.sh --data $dir/data/$name --model $chain --graph $chain/graph --dir $chain/decode_$name \
      --ivectors "$(ivectors $name)"
  done
fi

if begin 11 "rescoring with the large language model"; then
  for name in $tests; do
    [ -z "$large_lm" ] ||
      $local/rescore.sh --old $lang/G.fst --new $lang/G.carpa --from $chain/decode_$name --dir $chain/decode_${name}_large
  done
fi

if begin 12 "scoring"; then
  for suffix in "" ${large_lm:+_large}; do
    for name in $tests; do
      like=
      [ $name = $first ] || like=$chain/decode_$first$suffix
      $local/score.sh --data $dir/data/$name --words $chain/graph/words.txt --dir $chain/decode_$name$suffix --like "$like" \
        --weights "$score_weights" --penalties "$score_penalties"
      [ -n "$suffix" ] && size=large || size=small
      echo "$name, $size language model: $(grep -h '^%WER\|weight' $chain/decode_$name$suffix/wer | paste -sd' ')"
    done
  done | tee $dir/results.txt
fi
