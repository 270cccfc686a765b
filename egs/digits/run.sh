#!/usr/bin/env bash
# Spoken digit strings: three networks trained by the drivers, their frames scored, their words decoded.
#
#   ./run.sh                                     everything
#   ./run.sh --nets tdnn                         one network only; there are tdnn, lstm, tdnnf and chain
#   ./run.sh --stage 2                           from training on, which goes on where it was interrupted
#   ./run.sh --decode false                      without words; true: with, or fail; auto: if its packages are there
#   ./run.sh --scheduler tcp://127.0.0.1:8786    training jobs on the workers of a dask scheduler
#
# What it makes lies under exp/: the data as Kaldi lays it out, a folder for each network, and exp/results.txt.

set -euo pipefail
cd "$(dirname "$0")"
. ../utils/recipe.sh

stage=0
nets="tdnn lstm tdnnf chain"
data=data
dir=exp
decode=auto
num_jobs_initial=1
num_jobs_final=2
num_epochs=               # blank: what suits the network, see below
srand=1
scheduler=                # address of a dask scheduler; none: processes here
cmd=                      # such as "queue.pl --mem 2G": how jobs are started; none: processes here
. ../utils/parse_options.sh

for net in $nets; do
  case $net in tdnn|lstm|tdnnf|chain) ;; *) fail "--nets are some of tdnn, lstm, tdnnf and chain, not '$net'" ;; esac
done
chain=                    # it has a script of its own
case " $nets " in *" chain "*) chain=chain; nets=$(echo " $nets " | sed 's/ chain / /') ;; esac
case $decode in
  auto) if has_extra decode; then decode=true; else decode=missing; fi ;;
  true) has_extra decode || fail "decoding needs more packages ($extra_hint); --decode false does without" ;;
  false) ;;
  *) fail "--decode is auto, true or false, not '$decode'" ;;
esac

settings() {   # settings NET: what differs from network to network
  context=()              # of computing outputs
  case $1 in
    tdnn)                 # single frames, each with its context
      driver=train-dnn epochs=${num_epochs:-3}
      options=(--egs.frames-per-eg=4 --trainer.samples-per-iter=12000 --trainer.optimization.minibatch-size=128
        --trainer.optimization.initial-effective-lrate=0.0015 --trainer.optimization.final-effective-lrate=0.00015) ;;
    lstm)                 # chunks of 20 frames, with 20 more from which it learns what was before
      driver=train-rnn epochs=${num_epochs:-24}
      options=(--egs.chunk-width=20 --egs.chunk-left-context=20 --trainer.rnn.num-chunk-per-minibatch=32
        --trainer.samples-per-iter=2500 --trainer.optimization.momentum=0
        --trainer.optimization.initial-effective-lrate=0.0015 --trainer.optimization.final-effective-lrate=0.00015)
      context=(--extra-left-context=20) ;;
    tdnnf)                # chunks, too: neighboring frames share most of their context
      driver=train-rnn epochs=${num_epochs:-6}
      options=(--egs.chunk-width=20 --egs.chunk-left-context=0 --trainer.rnn.num-chunk-per-minibatch=32
        --trainer.samples-per-iter=2500 --trainer.optimization.momentum=0
        --trainer.optimization.initial-effective-lrate=0.0015 --trainer.optimization.final-effective-lrate=0.00015
        --trainer.dropout-schedule="0,0@0.20,0.2@0.50,0") ;;
  esac
}

if [ $stage -le 0 ]; then
  echo "$0: checking the data and laying it out as Kaldi does"
  for part in train test; do
    need $data/$part/{feats.ark,ali.txt,utt2spk,utt2num_frames,text}
  done
  need $data/{phones,lexicon}.txt
  ./local/make_kaldi_dirs.sh --data $data --dir $dir
fi

if [ $stage -le 1 ]; then
  for net in $nets; do
    out=$dir/$net
    rm -rf $out
    mkdir -p $out/configs
    sed "s|CONFIGS|$out/configs|" conf/$net.xconfig > $out/configs/network.xconfig
    run $out/log/xconfig.log xconfig-to-configs --xconfig-file $out/configs/network.xconfig --config-dir $out/configs
    run $out/log/info.log nnet3-info $out/configs/ref.raw > $out/info.txt
    echo "$0: $net: $(grep num-parameters $out/info.txt)"
  done
fi

if [ $stage -le 2 ]; then
  for net in $nets; do
    settings $net
    need $dir/$net/configs/final.config
    echo "$0: training $net"
    SECONDS=0
    $driver ${cmd:+--cmd="$cmd"} ${scheduler:+--scheduler=$scheduler} --use-gpu=no --feat-dir=$dir/data/train \
      --ali-dir=$dir/ali_train --lang=$dir/lang --feat.cmvn-opts="--norm-means=false --norm-vars=false" \
      --egs.opts="--nj 2 --num-utts-subset 24 --num-frames-diagnostic 4000 --num-train-frames-combine 8000" \
      --trainer.num-epochs=$epochs --trainer.srand=$srand --trainer.max-param-change=2.0 \
      --trainer.num-jobs-compute-prior=1 --trainer.max-models-combine=6 \
      --trainer.optimization.num-jobs-initial=$num_jobs_initial --trainer.optimization.num-jobs-final=$num_jobs_final \
      "${options[@]}" --dir=$dir/$net || fail "training $net failed (its logs: $dir/$net/log)"
    need $dir/$net/final.mdl
    echo "$0: trained $net in $SECONDS s"
  done
fi

if [ $stage -le 3 ]; then
  echo "$0: scoring the frames of the test speakers"
  for net in $nets; do
    settings $net
    run $dir/$net/log/compute.log nnet3-compute --use-priors=false --frames-per-chunk=150 ${context[@]+"${context[@]}"} \
      $dir/$net/final.mdl scp:$dir/data/test/feats.scp ark,scp:$dir/$net/logpost.ark,$dir/$net/logpost.scp
    run $dir/$net/log/score.log python ../utils/frame_accuracy.py --log scp:$dir/$net/logpost.scp $data/test/ali.txt \
      > $dir/$net/frames.txt
  done
fi

if [ $stage -le 4 ]; then
  case $decode in
    missing) echo "$0: not decoding words, which needs more packages ($extra_hint)" >&2 ;;
    true) echo "$0: decoding the words of the test speakers" ;;
  esac
  for net in $nets; do
    settings $net
    rm -f $dir/$net/decode/wer.txt
    [ $decode = true ] || continue
    ./local/decode.sh --dir $dir --net $dir/$net --options "${context[*]-}"
    echo "$0: $net: $(head -n 1 $dir/$net/decode/wer.txt)"
  done
fi

if [ $stage -le 5 ] && [ -n "$chain" ]; then
  ./run_chain.sh --data $data --dir $dir --decode ${decode/missing/auto} --srand $srand --cmd "$cmd" \
    --scheduler "$scheduler" ${num_epochs:+--num-epochs $num_epochs}
fi

if [ $stage -le 6 ]; then
  ./local/results.sh $dir $nets $chain | tee $dir/results.txt
fi
