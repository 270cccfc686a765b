#!/usr/bin/env bash
# A chain model of the spoken digit strings, trained with LF-MMI at a third of the frame rate, and its words decoded.
#
#   ./run_chain.sh                               everything
#   ./run_chain.sh --stage 2                     from training on, which goes on where it was interrupted
#   ./run_chain.sh --variant biphone             with i-vectors, and a tree of phones and their left neighbors
#   ./run_chain.sh --variant e2e                 from a flat start: without the alignments
#   ./run_chain.sh --decode false                without words; true: with, or fail; auto: if its packages are there
#   ./run_chain.sh --scheduler tcp://127.0.0.1:8786    training jobs on the workers of a dask scheduler
#
# What it makes lies under exp/: the data and the tree as Kaldi lays them out, and exp/chain; of the variant,
# exp/chain_biphone, exp/chain_tree_biphone, exp/extractor and exp/ivectors_{train,test}; of the other, exp/chain_e2e,
# exp/chain_tree_e2e and exp/lang_e2e.

set -euo pipefail
cd "$(dirname "$0")"
. ../utils/recipe.sh

stage=0
data=data
dir=exp
variant=plain             # or biphone, e2e
num_leaves=120            # of the variant's tree
ivector_dim=20            # and of its i-vectors
num_gauss=64
decode=auto
num_jobs_initial=1
num_jobs_final=1
num_epochs=4
srand=1
scheduler=                # address of a dask scheduler; none: processes here
cmd=                      # such as "queue.pl --mem 2G": how jobs are started; none: processes here
. ../utils/parse_options.sh

net=$dir/chain
tree=$dir/chain_tree
ivectors=                 # where they are, up to the part of the data
case $variant in
  plain) ;;
  biphone) net=${net}_biphone tree=${tree}_biphone ivectors=$dir/ivectors ;;
  e2e) net=${net}_e2e tree=${tree}_e2e ;;
  *) fail "--variant is plain, biphone or e2e, not '$variant'" ;;
esac

[ -s conf/chain.xconfig ] || fail "no conf/chain.xconfig"
case $decode in
  auto) if has_extra decode; then decode=true; else decode=missing; fi ;;
  true) has_extra decode || fail "decoding needs more packages ($extra_hint); --decode false does without" ;;
  false) ;;
  *) fail "--decode is auto, true or false, not '$decode'" ;;
esac

if [ $stage -le 0 ]; then
  echo "$0: laying the data out as Kaldi does; topology, tree and alignments at a third of the frame rate"
  for part in train test; do
    need $data/$part/{feats.ark,ali.txt,utt2spk,utt2num_frames,text}
  done
  need $data/{phones,lexicon}.txt
  ./local/make_kaldi_dirs.sh --data $data --dir $dir
  if [ $variant = biphone ]; then
    jobs=(${cmd:+--cmd="$cmd"} ${scheduler:+--scheduler=$scheduler} --nj=2)
    echo "$0: a tree of phones and their left neighbors"
    nnet3-build-tree ${cmd:+--cmd="$cmd"} ${scheduler:+--scheduler=$scheduler} --num-leaves=$num_leaves \
      --frame-subsampling-factor=3 --context-opts="--context-width=2 --central-position=1" --feat-dir=$dir/data/train \
      --lang=$dir/lang_chain --ali-dir=$dir/ali_train --dir=$tree
    echo "$0: i-vectors"
    train-ivector-extractor "${jobs[@]}" --feat-dir=$dir/data/train --ubm.num-gauss=$num_gauss \
      --ivector-dim=$ivector_dim --num-iters=5 --dir=$dir/extractor
    # In training, speakers are taken apart, so that i-vectors of few utterances are seen, as in the beginning of a call.
    for part in train test; do
      most=0; [ $part = test ] || most=2
      extract-ivectors "${jobs[@]}" --feat-dir=$dir/data/$part --extractor-dir=$dir/extractor --utts-per-spk-max=$most \
        --dir=${ivectors}_$part
    done
  elif [ $variant = e2e ]; then
    echo "$0: graphs of the transcripts, and a phone language model of them"
    run $tree/lang.log prepare-lang --silence-phones=SIL $dir/lang/lexicon.txt $dir/lang_e2e
    prepare-e2e ${cmd:+--cmd="$cmd"} ${scheduler:+--scheduler=$scheduler} --feat-dir=$dir/data/train --lang=$dir/lang_e2e \
      --nj=2 --dir=$tree
  fi
fi

if [ $stage -le 1 ]; then
  need $tree/{tree,final.mdl,num_jobs}
  pdfs=$(tree-info $tree/tree 2>/dev/null | sed -n 's/^num-pdfs //p')
  rm -rf $net
  mkdir -p $net/configs
  sed "s|CONFIGS|$net/configs|g; s|PDFS|$pdfs|g" conf/chain.xconfig > $net/configs/network.xconfig
  if [ -n "$ivectors" ]; then
    sed -i "/^input dim=40 name=input/ {
      i input dim=$ivector_dim name=ivector
      a linear-component name=ivector-linear dim=32 input=ReplaceIndex(ivector, t, 0) l2-regularize=0.01
      a batchnorm-component name=ivector-norm target-rms=0.1
    }; s|^\(relu-batchnorm-layer name=tdnn1 .*Append(-2,-1,0,1,2\))|\1, ivector-norm)|" $net/configs/network.xconfig
  fi
  run $net/log/xconfig.log xconfig-to-configs --xconfig-file $net/configs/network.xconfig --config-dir $net/configs
  run $net/log/info.log nnet3-info $net/configs/ref.raw > $net/info.txt
  echo "$0: $(grep num-parameters $net/info.txt), $pdfs pdfs"
fi

if [ $stage -le 2 ]; then
  # The phone language model is estimated from the phones of the training alignments; examples come from alignments at
  # the full frame rate.
  need $net/configs/final.config
  SECONDS=0
  labels="--ali-dir=$dir/ali_train --egs.chunk-width=150,110,90 --trainer.num-chunk-per-minibatch=32,16,8"
  [ $variant != e2e ] || labels="--e2e=true --trainer.num-chunk-per-minibatch=8,4,2,1"
  train-chain ${cmd:+--cmd="$cmd"} ${scheduler:+--scheduler=$scheduler} --use-gpu=no --feat-dir=$dir/data/train \
    --tree-dir=$tree $labels --feat.cmvn-opts="--norm-means=false --norm-vars=false" \
    ${ivectors:+--feat.online-ivector-dir=${ivectors}_train} \
    --chain.lm-opts="--num-extra-lm-states=500" --chain.leaky-hmm-coefficient=0.1 \
    --chain.l2-regularize=0.00005 --chain.xent-regularize=0.1 \
    --egs.opts="--nj 2 --num-utts-subset 24 --num-egs-diagnostic 60 --num-train-egs-combine 200" \
    --trainer.frames-per-iter=150000 \
    --trainer.num-epochs=$num_epochs --trainer.srand=$srand --trainer.max-param-change=2.0 \
    --trainer.optimization.num-jobs-initial=$num_jobs_initial --trainer.optimization.num-jobs-final=$num_jobs_final \
    --trainer.optimization.initial-effective-lrate=0.002 --trainer.optimization.final-effective-lrate=0.0002 \
    --dir=$net || fail "training failed (its logs: $net/log)"
  need $net/final.mdl
  echo "$0: trained in $SECONDS s"
fi

if [ $stage -le 3 ]; then
  rm -f $net/decode/wer.txt
  case $decode in
    missing) echo "$0: not decoding words, which needs more packages ($extra_hint)" >&2 ;;
    true)
      echo "$0: decoding the words of the test speakers"
      need $net/frame_subsampling_factor
      more=
      [ -z "$ivectors" ] || more="--online-ivectors=scp:${ivectors}_test/ivector_online.scp
        --online-ivector-period=$(cat ${ivectors}_test/ivector_period)"
      lang=$dir/lang
      [ $variant != e2e ] || lang=${lang}_e2e
      ./local/decode.sh --dir $dir --net $net --tree $tree/tree --lang $lang --self-loop-scale 1.0 --acoustic-scale 1.0 --beam 15 \
        --options "--frame-subsampling-factor=$(cat $net/frame_subsampling_factor) $more"
      echo "$0: $(head -n 1 $net/decode/wer.txt)" ;;
  esac
fi
