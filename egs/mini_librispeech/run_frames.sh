#!/usr/bin/env bash
# A TDNN-F acoustic model on data and alignments that Kaldi has made, up to posteriors of test data.
#
#   run_frames.sh --data-dir data/train_clean_5 --ali-dir exp/tri3b_ali_train_clean_5 --lang data/lang \
#          --test-data-dir data/dev_clean_2 --test-ali-dir exp/tri3b_ali_dev_clean_2
#
# Run it where Kaldi's recipe runs, if the paths in feats.scp are relative. Without --test-ali-dir there are posteriors
# but no frame accuracy; --online-ivector-dir and --test-online-ivector-dir may be given. What it makes lies under --dir.
# A smaller network: --dim 256 --bottleneck 64 --prefinal-dim 128 --strides "1 1 0 3 3 3". Further options stand below.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../utils/recipe.sh"

stage=0
data_dir=
ali_dir=
lang=
test_data_dir=
test_ali_dir=
online_ivector_dir=
test_online_ivector_dir=
dir=exp/nnet3_tdnnf
cmvn_opts="--norm-means=true --norm-vars=false"
dim=768
bottleneck=96
prefinal_dim=192
strides="1 1 1 0 3 3 3 3 3 3 3 3"
num_epochs=6
num_jobs_initial=2
num_jobs_final=2
initial_lrate=0.001
final_lrate=0.0001
minibatch_size=128
frames_per_eg=8
samples_per_iter=20000
dropout_schedule="0,0@0.20,0.3@0.50,0"
egs_opts=                 # such as "--num-utts-subset 30", for little data
use_gpu=optional
cmd=                      # such as "queue.pl --mem 2G": how jobs are started; none: processes here
. "$here/../utils/parse_options.sh"

for name in data_dir ali_dir lang test_data_dir; do
  [ -n "${!name}" ] || fail "--${name//_/-} is needed; see $0 --help"
done
lists=$dir/lists          # the data directories, with statistics of the features if they had none

if [ $stage -le 0 ]; then
  echo "$0: checking the data"
  need {$data_dir,$test_data_dir}/{feats.scp,utt2spk} $lang/phones.txt $ali_dir/{final.mdl,tree,phones.txt,num_jobs,ali.1.gz}
  [ -z "$test_ali_dir" ] || need $test_ali_dir/{final.mdl,tree,ali.1.gz}
  [ -z "$online_ivector_dir" ] || need {$online_ivector_dir,$test_online_ivector_dir}/ivector_online.scp
  symbols() { grep -v '^#' "$1"; }   # disambiguation symbols may differ
  cmp -s <(symbols $lang/phones.txt) <(symbols $ali_dir/phones.txt) ||
    fail "$lang/phones.txt and $ali_dir/phones.txt differ: the alignments were made with other phones"
  [ -z "$test_ali_dir" ] || cmp -s $ali_dir/tree $test_ali_dir/tree ||
    fail "$ali_dir/tree and $test_ali_dir/tree differ: the frame accuracy would mean nothing"
  dims=$(for d in $data_dir $test_data_dir; do feat-to-dim --print-args=false scp:$d/feats.scp -; done | sort -u | xargs)
  [ "$(wc -w <<< "$dims")" = 1 ] || fail "the features of $data_dir and $test_data_dir have the dimensions $dims"
  echo "$0: $(wc -l < $data_dir/feats.scp) utterances to train on, $(wc -l < $test_data_dir/feats.scp) to test"
fi

if [ $stage -le 1 ]; then
  echo "$0: statistics of the features"
  for part in train test; do
    source=$data_dir; [ $part = train ] || source=$test_data_dir
    mkdir -p $lists/$part
    sort -k1,1 -u $source/feats.scp > $lists/$part/feats.scp
    sort -k1,1 -u $source/utt2spk | join -o 1.1,1.2 - $lists/$part/feats.scp > $lists/$part/utt2spk
    [ "$(wc -l < $lists/$part/utt2spk)" = "$(wc -l < $lists/$part/feats.scp)" ] ||
      fail "$source/utt2spk does not have all utterances of $source/feats.scp"
    awk '{ of[$2] = of[$2] " " $1 } END { for (s in of) print s of[s] }' $lists/$part/utt2spk |
      sort -k1,1 > $lists/$part/spk2utt
    if [ -s $source/cmvn.scp ]; then
      sort -k1,1 -u $source/cmvn.scp > $lists/$part/cmvn.scp
    else
      run $dir/log/cmvn_$part.log compute-cmvn-stats --spk2utt=ark:$lists/$part/spk2utt scp:$lists/$part/feats.scp \
        ark,scp:$lists/$part/cmvn.ark,$lists/$part/cmvn.scp
    fi
  done
fi

if [ $stage -le 2 ]; then
  echo "$0: making the network"
  rm -rf $dir/configs $dir/egs $dir/driver_options.json $dir/*.mdl
  feat_dim=$(feat-to-dim --print-args=false scp:$lists/train/feats.scp -)
  ivector_dim=0
  [ -z "$online_ivector_dir" ] ||
    ivector_dim=$(feat-to-dim --print-args=false scp:$online_ivector_dir/ivector_online.scp -)
  num_pdfs=$(tree-info --print-args=false $ali_dir/tree | awk '$1 == "num-pdfs" { print $2 }')
  mkdir -p $dir/configs
  "$here/local/make_xconfig.sh" $feat_dim $ivector_dim $num_pdfs $dir/configs $dim $bottleneck $prefinal_dim "$strides" \
    > $dir/configs/network.xconfig
  run $dir/log/xconfig.log xconfig-to-configs --xconfig-file $dir/configs/network.xconfig --config-dir $dir/configs
  run $dir/log/info.log nnet3-info $dir/configs/ref.raw > $dir/info.txt
  echo "$0: $(grep num-parameters $dir/info.txt)"
fi

if [ $stage -le 3 ]; then
  echo "$0: training"
  train-dnn ${cmd:+--cmd="$cmd"} --use-gpu=$use_gpu \
    ${online_ivector_dir:+--feat.online-ivector-dir=$online_ivector_dir} --feat.cmvn-opts="$cmvn_opts" \
    --egs.frames-per-eg=$frames_per_eg ${egs_opts:+--egs.opts="$egs_opts"} \
    --trainer.samples-per-iter=$samples_per_iter --trainer.num-epochs=$num_epochs \
    --trainer.dropout-schedule="$dropout_schedule" \
    --trainer.optimization.num-jobs-initial=$num_jobs_initial --trainer.optimization.num-jobs-final=$num_jobs_final \
    --trainer.optimization.initial-effective-lrate=$initial_lrate \
    --trainer.optimization.final-effective-lrate=$final_lrate \
    --trainer.optimization.minibatch-size=$minibatch_size \
    --feat-dir=$lists/train --lang=$lang --ali-dir=$ali_dir --dir=$dir || fail "training failed (its logs: $dir/log)"
  need $dir/final.mdl
fi

if [ $stage -le 4 ]; then
  echo "$0: posteriors of the test data"
  ivectors=()
  [ -z "$test_online_ivector_dir" ] || ivectors=(--online-ivectors=scp:$test_online_ivector_dir/ivector_online.scp
    --online-ivector-period="$(cat $test_online_ivector_dir/ivector_period)")
  feats="scp:$lists/test/cmvn.scp scp:$lists/test/feats.scp"
  run $dir/log/compute.log nnet3-compute --use-priors=false --apply-exp=true --frames-per-chunk=150 \
    ${ivectors[@]+"${ivectors[@]}"} $dir/final.mdl \
    "ark:apply-cmvn $cmvn_opts --utt2spk=ark:$lists/test/utt2spk $feats ark:- |" ark,scp:$dir/post.ark,$dir/post.scp
fi

if [ $stage -le 5 ] && [ -n "$test_ali_dir" ]; then
  run $dir/log/ali_to_pdf.log ali-to-pdf $test_ali_dir/final.mdl "ark:gunzip -c $test_ali_dir/ali.*.gz |" \
    ark,t:$dir/test_pdfs.txt
  run $dir/log/accuracy.log python "$here/../utils/frame_accuracy.py" scp:$dir/post.scp $dir/test_pdfs.txt \
    > $dir/results.txt
  cat $dir/results.txt
fi
