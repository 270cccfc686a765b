#!/usr/bin/env bash
# Frames of spoken digit strings told apart by a TDNN and an LSTM: a plain loop of nnet3-train, from features to an accuracy.
#
#   ./run_quick.sh                 everything
#   ./run_quick.sh --stage 3       from training on
#   ./run_quick.sh --nets tdnn     one net only
#
# What it makes lies under exp/quick/: examples, models, logs, posteriors (NET/post.ark) and the table (results.txt).

set -euo pipefail
cd "$(dirname "$0")"
. ./path.sh

stage=0
nets="tdnn lstm"
data=data
dir=exp/quick
num_epochs=6
initial_lrate=0.002
final_lrate=0.0002       # what the rate would be after the last pass: lrate(i) = initial * (final/initial)^(i/num_epochs)
left_context=12
right_context=12
frames_per_eg=8
minibatch_size=64
. ../utils/parse_options.sh

train_egs=$dir/egs/train.ark
test_egs=$dir/egs/test.ark
num_pdfs=$(awk 'NF { n = $2 > n ? $2 : n } END { print n + 1 }' $data/phones.txt)
mkdir -p $dir/egs/log

run() {   # run LOG COMMAND…: the log keeps the command's messages; they are shown if it fails
  local log=$1; shift
  if ! "$@" 2>"$log"; then
    echo "$0: failed: $* (messages: $log)" >&2
    grep -E '^(ERROR|WARNING|ASSERTION)' "$log" >&2 || tail -n 5 "$log" >&2
    exit 1
  fi
}

if [ $stage -le 0 ]; then
  echo "$0: checking the data"
  for part in train test; do
    for f in feats.ark ali.txt utt2spk utt2num_frames; do
      [ -s $data/$part/$f ] || { echo "$0: no $data/$part/$f" >&2; exit 1; }
    done
    feat-to-len --print-args=false ark:$data/$part/feats.ark ark,t:- | diff -q -b - $data/$part/utt2num_frames >/dev/null ||
      { echo "$0: the features of $data/$part do not have the lengths of utt2num_frames" >&2; exit 1; }
  done
fi

if [ $stage -le 1 ]; then
  echo "$0: making examples"
  for part in train test; do
    run $dir/egs/log/get_egs_$part.log nnet3-get-egs --num-pdfs=$num_pdfs --left-context=$left_context \
      --right-context=$right_context --num-frames=$frames_per_eg ark:$data/$part/feats.ark \
      "ark:ali-to-post ark,t:$data/$part/ali.txt ark:- |" ark:$dir/egs/$part.ark
  done
fi

if [ $stage -le 2 ]; then
  for net in $nets; do
    mkdir -p $dir/$net/log
    run $dir/$net/log/init.log nnet3-init --srand=1 conf/$net.config $dir/$net/0.raw
    run $dir/$net/log/info.log nnet3-info $dir/$net/0.raw > $dir/$net/info.txt
    echo "$0: $net: $(grep num-parameters $dir/$net/info.txt)"
  done
fi

if [ $stage -le 3 ]; then
  for net in $nets; do
    : > $dir/$net/passes.txt
    for ((i = 0; i < num_epochs; i++)); do
      lrate=$(awk -v a=$initial_lrate -v b=$final_lrate -v i=$i -v n=$num_epochs 'BEGIN { print a * (b / a) ^ (i / n) }')
      SECONDS=0
      run $dir/$net/log/train.$i.log nnet3-train --print-interval=20 --srand=$i --max-param-change=2.0 \
        "nnet3-copy --learning-rate=$lrate $dir/$net/$i.raw - |" \
        "ark,bg:nnet3-shuffle-egs --buffer-size=5000 --srand=$i ark:$train_egs ark:- | nnet3-merge-egs --minibatch-size=$minibatch_size ark:- ark:- |" \
        $dir/$net/$((i + 1)).raw
      objf=$(sed -n "s/.*Overall average objective function for 'output' is \([-0-9.e]*\) over.*/\1/p" $dir/$net/log/train.$i.log)
      echo "$0: $net: pass $((i + 1)) of $num_epochs, learning rate $lrate: objective $objf ($SECONDS s)"
      echo "$((i + 1)) $lrate $objf" >> $dir/$net/passes.txt
    done
    cp $dir/$net/$num_epochs.raw $dir/$net/final.raw
  done
fi

if [ $stage -le 4 ]; then
  echo "$0: scoring the test speakers"
  for net in $nets; do
    run $dir/$net/log/score.log nnet3-compute-prob $dir/$net/final.raw \
      "ark:nnet3-merge-egs --minibatch-size=1:$minibatch_size ark:$test_egs ark:- |"
    run $dir/$net/log/compute.log nnet3-compute --frames-per-chunk=150 --apply-exp=true \
      $dir/$net/final.raw ark:$data/test/feats.ark ark,scp:$dir/$net/post.ark,$dir/$net/post.scp
  done
fi

if [ $stage -le 5 ]; then
  ./local/results_quick.sh $dir $nets | tee $dir/results.txt
  root=$(cd ../.. && pwd)
  case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
  case $data in /*) ;; *) data=$PWD/$data ;; esac
  model=$dir/${nets%% *}/final.raw
  cat <<EOF

What was trained lies in $dir. Next:
  $root/bin/nnet3py inspect $model
  $root/bin/nnet3-compute --apply-exp=true $model ark:$data/test/feats.ark ark,t:- | head
  $root/docs/tutorial.md         trains such a network step by step
  $root/egs/digits/run.sh        goes on to words
EOF
fi
