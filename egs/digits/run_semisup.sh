#!/usr/bin/env bash
# Semi-supervised training: transcripts of a few speakers, and what a first model hears in the sound of all others.
#
#   ./run_semisup.sh                             everything; run_chain.sh has all transcripts
#   ./run_semisup.sh --num-speakers 6            transcripts of six of the sixty speakers
#
# What it makes lies under exp/, as what run_chain.sh makes: data/train_{sup,unsup}, chain_tree_sup, chain_sup (of the
# transcripts), chain_semisup (of both).

set -euo pipefail
cd "$(dirname "$0")"
. ../utils/recipe.sh

stage=0
data=data
dir=exp
num_speakers=6
num_epochs=4
acoustic_scale=1.0
. ../utils/parse_options.sh

has_extra decode || fail "decoding needs more packages ($extra_hint)"
tree=$dir/chain_tree_sup
if [ $stage -le 0 ]; then
  ./local/make_kaldi_dirs.sh --data $data --dir $dir
  # Every tenth speaker, for six of sixty.
  awk -v n=$num_speakers '{ speaker[NR] = $1 } END { for (i = 0; i < n; i++) print speaker[1 + int(i * NR / n)] }' \
    $dir/data/train/spk2utt > $dir/sup_speakers
  for part in sup unsup; do
    out=$dir/data/train_$part
    mkdir -p $out
    awk -v part=$part 'NR == FNR { chosen[$1]; next } (($2 in chosen) == (part == "sup"))' \
      $dir/sup_speakers $dir/data/train/utt2spk > $out/utt2spk
    for name in feats.scp utt2num_frames; do
      awk 'NR == FNR { of[$1]; next } $1 in of' $out/utt2spk $dir/data/train/$name > $out/$name
    done
    awk 'NR == FNR { of[$2]; next } $1 in of' $out/utt2spk $dir/data/train/cmvn.scp > $out/cmvn.scp
  done
  # The phone language model must not know what the others said.
  mkdir -p $tree/log
  cp $dir/chain_tree/{tree,final.mdl,phones.txt} $tree
  echo 1 > $tree/num_jobs
  run $tree/log/ali.log copy-int-vector "ark:gunzip -c $dir/chain_tree/ali.*.gz |" ark,t:$tree/ali.txt
  awk 'NR == FNR { of[$1]; next } $1 in of' $dir/data/train_sup/utt2spk $tree/ali.txt | gzip -c > $tree/ali.1.gz
  rm $tree/ali.txt
fi

train() {   # train FOLDER OPTION…
  local net=$1 pdfs; shift
  pdfs=$(tree-info $tree/tree 2>/dev/null | sed -n 's/^num-pdfs //p')
  mkdir -p $net/configs
  sed "s|CONFIGS|$net/configs|g; s|PDFS|$pdfs|g" conf/chain.xconfig > $net/configs/network.xconfig
  run $net/log/xconfig.log xconfig-to-configs --xconfig-file $net/configs/network.xconfig --config-dir $net/configs
  train-chain --use-gpu=no --feat-dir=$dir/data/train_sup --tree-dir=$tree --ali-dir=$dir/ali_train \
    --feat.cmvn-opts="--norm-means=false --norm-vars=false" --chain.lm-opts="--num-extra-lm-states=500" \
    --chain.leaky-hmm-coefficient=0.1 --chain.l2-regularize=0.00005 --chain.xent-regularize=0.1 \
    --egs.chunk-width=150,110,90 --egs.opts="--nj 2 --num-egs-diagnostic 60 --num-train-egs-combine 200" \
    --trainer.frames-per-iter=150000 --trainer.num-chunk-per-minibatch=32,16,8 --trainer.srand=1 \
    --trainer.max-param-change=2.0 --trainer.optimization.num-jobs-initial=1 --trainer.optimization.num-jobs-final=1 \
    --trainer.optimization.initial-effective-lrate=0.002 --trainer.optimization.final-effective-lrate=0.0002 \
    "$@" --dir=$net || fail "training failed (its logs: $net/log)"
  ./local/decode.sh --dir $dir --net $net --tree $tree/tree --self-loop-scale 1.0 --acoustic-scale $acoustic_scale \
    --beam 15 --options "--frame-subsampling-factor=3"
  echo "$0: $(basename $net): $(head -n 1 $net/decode/wer.txt)"
}

if [ $stage -le 1 ]; then
  echo "$0: training on the transcripts of $num_speakers speakers"
  train $dir/chain_sup --trainer.num-epochs=$((4 * num_epochs))        # as few data are not many steps
fi

if [ $stage -le 2 ]; then
  echo "$0: what that model hears in the rest"
  lat=$dir/chain_sup/lat_unsup
  mkdir -p $lat
  cp $dir/chain_sup/final.mdl $lat
  run $lat/decode.log nnet3-latgen-faster --acoustic-scale=$acoustic_scale --beam=15 --lattice-beam=8 \
    --frames-per-chunk=150 --frame-subsampling-factor=3 $lat/final.mdl $dir/chain_sup/graph/HCLG.fst \
    scp:$dir/data/train_unsup/feats.scp "ark:| lattice-scale --acoustic-scale=10.0 ark:- ark:- | gzip -c > $lat/lat.1.gz"
fi

if [ $stage -le 3 ]; then
  echo "$0: training on both"
  # Otherwise the few transcripts would count far less than what was heard, with its mistakes.
  train $dir/chain_semisup --semisup.feat-dir=$dir/data/train_unsup --semisup.lat-dir=$dir/chain_sup/lat_unsup \
    --semisup.num-copies-sup=4 --semisup.lm-repeats=4,1 --trainer.num-epochs=$num_epochs
fi
