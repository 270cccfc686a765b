#!/usr/bin/env bash
# Taking noise out of features: a network trained on dense targets (clean features), from data to a mean squared error.
#
#   ./run.sh                 everything
#   ./run.sh --stage 3       from training on
#
# What it makes lies under exp/: clean and noisy features, the network, denoised features and exp/results.txt.

set -euo pipefail
cd "$(dirname "$0")"
. ../utils/recipe.sh

stage=0
data=../digits/data
dir=exp
copies=2                  # of each training utterance, with different noise
snrs=0,5,10,15            # signal-to-noise ratios, in decibels
num_epochs=2
num_jobs=2
initial_lrate=0.0005
final_lrate=0.00005
minibatch_size=128
classifier=../digits/exp/tdnn/final.mdl   # a network that tells phones of clean features; not used if not there
classifier_cmvn_opts="--norm-means=false --norm-vars=false"   # how its features are normalized, by speaker
cmd=                      # such as "queue.pl --mem 2G": how jobs are started; none: processes here
. ../utils/parse_options.sh

net=$dir/denoise

if [ $stage -le 0 ]; then
  echo "$0: checking the data"
  for part in train test; do
    need $data/$part/{feats.ark,utt2spk,ali.txt}
  done
fi

if [ $stage -le 1 ]; then
  echo "$0: making clean and noisy features"
  # All features, clean and noisy, are normalized with what is true of the clean training data: then the mean squared
  # error of the mean is 1, and the network can begin with features as they are.
  run $dir/log/cmvn.log compute-cmvn-stats ark:$data/train/feats.ark $dir/global.cmvn
  normalize="apply-cmvn --norm-vars=true $dir/global.cmvn"
  for part in train test; do
    clean=$dir/clean_$part noisy=$dir/noisy_$part
    mkdir -p $clean $noisy
    run $clean/log/feats.log $normalize ark:$data/$part/feats.ark ark,scp:$clean/feats.ark,$clean/feats.scp
    n=1; [ $part = test ] || n=$copies
    run $noisy/log/noise.log python local/make_noisy.py --copies $n --snrs $snrs $data/$part $clean/feats.scp $noisy/raw
    cp $noisy/raw/{utt2spk,spk2utt,utt2uniq,utt2snr,targets.scp} $noisy
    run $noisy/log/feats.log $normalize scp:$noisy/raw/feats.scp ark,scp:$noisy/feats.ark,$noisy/feats.scp
    run $noisy/log/cmvn.log compute-cmvn-stats --spk2utt=ark:$noisy/spk2utt scp:$noisy/feats.scp \
      ark,scp:$noisy/cmvn.ark,$noisy/cmvn.scp   # the driver asks for it; it is not applied
  done
fi

if [ $stage -le 2 ]; then
  echo "$0: making the network"
  rm -rf $net
  run $net/log/xconfig.log xconfig-to-configs --xconfig-file conf/denoise.xconfig --config-dir $net/configs
fi

if [ $stage -le 3 ]; then
  echo "$0: training"
  train-raw-dnn ${cmd:+--cmd="$cmd"} --use-gpu=no --nj=2 \
    --feat-dir=$dir/noisy_train --feat.cmvn-opts="--norm-means=false --norm-vars=false" \
    --targets-scp=$dir/noisy_train/targets.scp --use-dense-targets=true \
    --egs.frames-per-eg=8 --egs.opts="--num-utts-subset 24 --num-frames-diagnostic 4000" \
    --trainer.samples-per-iter=8000 --trainer.num-epochs=$num_epochs --trainer.srand=1 \
    --trainer.optimization.num-jobs-initial=$num_jobs --trainer.optimization.num-jobs-final=$num_jobs \
    --trainer.optimization.initial-effective-lrate=$initial_lrate \
    --trainer.optimization.final-effective-lrate=$final_lrate \
    --trainer.optimization.minibatch-size=$minibatch_size --dir=$net ||
    fail "training failed (its logs: $net/log)"
  need $net/final.raw
fi

if [ $stage -le 4 ]; then
  echo "$0: denoising the test speakers"
  run $net/log/compute.log nnet3-compute --frames-per-chunk=150 $net/final.raw scp:$dir/noisy_test/feats.scp \
    ark,scp:$net/denoised.ark,$net/denoised.scp
fi

if [ $stage -le 5 ]; then
  python local/squared_error.py --by $dir/noisy_test/utt2snr --linear scp:$dir/noisy_train/feats.scp \
    scp:$dir/noisy_train/targets.scp scp:$dir/noisy_test/targets.scp noisy=scp:$dir/noisy_test/feats.scp \
    denoised=scp:$net/denoised.scp | tee $dir/results.txt
fi

if [ $stage -le 6 ] && [ -s "$classifier" ]; then
  echo "$0: telling phones of clean, noisy and denoised features with $classifier"
  sed 's/ /-noise1 /' $data/test/ali.txt > $dir/ali.txt
  for kind in targets noisy denoised; do
    case $kind in
      targets) feats=$dir/noisy_test/targets.scp ;;
      noisy) feats=$dir/noisy_test/feats.scp ;;
      denoised) feats=$net/denoised.scp ;;
    esac
    run $dir/log/reverse_$kind.log apply-cmvn --norm-vars=true --reverse=true $dir/global.cmvn scp:$feats ark:$dir/plain.ark
    run $dir/log/cmvn_$kind.log compute-cmvn-stats --spk2utt=ark:$dir/noisy_test/spk2utt ark:$dir/plain.ark ark:$dir/plain.cmvn
    run $dir/log/classify_$kind.log nnet3-compute --use-priors=false --frames-per-chunk=150 "$classifier" \
      "ark:apply-cmvn $classifier_cmvn_opts --utt2spk=ark:$dir/noisy_test/utt2spk ark:$dir/plain.cmvn ark:$dir/plain.ark ark:- |" ark:$dir/post_$kind.ark
    run $dir/log/accuracy_$kind.log python ../utils/frame_accuracy.py ark:$dir/post_$kind.ark $dir/ali.txt
  done | paste -d' ' <(printf '%s\n' clean noisy denoised) - | tee -a $dir/results.txt
fi
