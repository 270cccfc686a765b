#!/usr/bin/env bash
# Training of a chain model by Kaldi's programs, written out by hand: from phones to final.mdl and posteriors.
#
#   chain.sh DATA ALI TREE DIR
#
# DATA: feats.scp, utt2spk, cmvn.scp. ALI: alignments with all frames (final.mdl, ali.*.gz). TREE: those of a third of the
# frames with the topology of chain models (tree, final.mdl, ali.*.gz). Models, logs and DIR/summary appear in DIR.

set -e -u -o pipefail
export LC_ALL=C

data=$1
ali=$2
tree=$3
dir=$4

left_context=5              # 4 of the network, 1 more for the shifts of frames
right_context=5
frames_per_eg=60,30
num_valid=4
num_iters=2
num_jobs=2
lrate=0.004                 # effective rate times jobs
srand=3
egs=$dir/egs

mkdir -p $dir/log $dir/configs $egs/log
. "$(dirname "$0")/jobs.sh"
: > $dir/summary

### Phone language model, denominator graph ###

job $dir/log/make_phone_lm.log "gunzip -c $tree/ali.*.gz | ali-to-phones $tree/final.mdl ark:- ark:- | \
  chain-est-phone-lm --ngram-order=3 --no-prune-ngram-order=2 --num-extra-lm-states=50 ark:- $dir/phone_lm.fst"
job $dir/log/copy_transition_model.log "copy-transition-model $tree/final.mdl $dir/0.trans_mdl"
job $dir/log/make_den_fst.log "chain-make-den-fst $tree/tree $dir/0.trans_mdl $dir/phone_lm.fst $dir/den.fst $dir/normalization.fst"
num_pdfs=$(tree-info --print-args=false $tree/tree 2>/dev/null | sed -n 's/^num-pdfs //p')
feat_dim=$(feat-to-dim scp:$data/feats.scp - 2>/dev/null)
note "num_pdfs $num_pdfs"

### Examples: supervisions of phones with lengths, cut, normalised for training in the end ###

awk '{print $1}' $data/feats.scp | tail -n $num_valid > $egs/valid_uttlist
keep $egs/valid_uttlist < $data/feats.scp > $egs/valid.scp
drop $egs/valid_uttlist < $data/feats.scp > $egs/train.scp
job $egs/log/supervision.log "gunzip -c $ali/ali.*.gz | ali-to-phones --write-lengths=true $ali/final.mdl ark:- ark:- | \
  chain-get-supervision --left-tolerance=5 --right-tolerance=5 --frame-subsampling-factor=3 \
  $tree/tree $dir/0.trans_mdl ark:- ark,scp:$egs/sup.ark,$egs/sup.scp"
note "supervisions $(sed -n 's/^LOG.*Generated chain supervision information for \([0-9]*\) utterances, errors on \([0-9]*\).*/\1 \2/p' $egs/log/supervision.log)"

feats="apply-cmvn --norm-means=true --norm-vars=false --utt2spk=ark:$data/utt2spk scp:$data/cmvn.scp scp:- ark:- |"
get_egs="nnet3-chain-get-egs --left-context=$left_context --right-context=$right_context --num-frames=$frames_per_eg \
  --frame-subsampling-factor=3 --compress=true"
job $egs/log/create_valid.log "$get_egs $dir/normalization.fst \"ark,s,cs:cat $egs/valid.scp | $feats\" \
  scp:$egs/sup.scp ark:- | nnet3-chain-subset-egs --n=20 ark:- ark:$egs/valid_diagnostic.cegs"
job $egs/log/get_egs.log "$get_egs \"ark,s,cs:cat $egs/train.scp | $feats\" scp:$egs/sup.scp ark:- | \
  nnet3-chain-copy-egs --random=true --srand=$srand ark:- ark:$egs/cegs_orig.1.ark ark:$egs/cegs_orig.2.ark"
parallel_jobs 1 2 $egs/log/shuffle.JOB.log "nnet3-chain-normalize-egs --normalization-fst-scale=1.0 $dir/normalization.fst \
  ark:$egs/cegs_orig.JOB.ark ark:- | nnet3-chain-shuffle-egs --srand=\$((JOB + $srand)) ark:- ark:$egs/cegs.JOB.ark"
job $egs/log/train_diagnostic.log "nnet3-chain-subset-egs --n=20 ark:$egs/cegs.1.ark ark:$egs/train_diagnostic.cegs"
note "copied_egs $(sed -n 's/^LOG.*Read \([0-9]*\) neural-network training examples, wrote \([0-9]*\), \([0-9]*\) examples had errors.*/\1 \2 \3/p' $egs/log/get_egs.log)"
note "shuffled $(grep -h -o 'Shuffled order of [0-9]* neural-network training examples' $egs/log/shuffle.*.log | awk '{n += $4} END {print n}')"

### The network, with a second output for the cross-entropy ###

cat > $dir/configs/init.config <<CONFIG
input-node name=input dim=$feat_dim
output-node name=output input=Append(Offset(input, -1), input, Offset(input, 1))
CONFIG
cat > $dir/configs/final.config <<CONFIG
component name=lda type=FixedAffineComponent matrix=$dir/configs/lda.mat
component-node name=lda component=lda input=Append(Offset(input, -1), input, Offset(input, 1))
component name=affine1 type=NaturalGradientAffineComponent input-dim=$((3 * feat_dim)) output-dim=32 max-change=0.75
component-node name=affine1 component=affine1 input=lda
component name=relu1 type=RectifiedLinearComponent dim=32
component-node name=relu1 component=relu1 input=affine1
component name=norm1 type=BatchNormComponent dim=32
component-node name=norm1 component=norm1 input=relu1
component name=affine2 type=NaturalGradientAffineComponent input-dim=64 output-dim=32 max-change=0.75
component-node name=affine2 component=affine2 input=Append(Offset(norm1, -3), Offset(norm1, 3))
component name=relu2 type=RectifiedLinearComponent dim=32
component-node name=relu2 component=relu2 input=affine2
component name=chain type=NaturalGradientAffineComponent input-dim=32 output-dim=$num_pdfs max-change=1.5 param-stddev=0.0 bias-stddev=0.0
component-node name=chain component=chain input=relu2
output-node name=output input=chain objective=linear
component name=xent type=NaturalGradientAffineComponent input-dim=32 output-dim=$num_pdfs max-change=1.5 param-stddev=0.0 bias-stddev=0.0 learning-rate-factor=5.0
component-node name=xent component=xent input=relu2
component name=softmax type=LogSoftmaxComponent dim=$num_pdfs
component-node name=softmax component=softmax input=xent
output-node name=output-xent input=softmax objective=linear
CONFIG
job $dir/log/nnet_init.log "nnet3-init --srand=-2 $dir/configs/init.config $dir/init.raw"
parallel_jobs 1 2 $dir/log/get_lda_stats.JOB.log "nnet3-chain-acc-lda-stats --rand-prune=4.0 $dir/init.raw \
  \"ark:nnet3-chain-copy-egs ark:$egs/cegs.JOB.ark ark:- |\" $dir/JOB.lda_stats"
job $dir/log/sum_transform_stats.log "sum-lda-accs $dir/lda_stats $dir/1.lda_stats $dir/2.lda_stats"
job $dir/log/get_transform.log "nnet-get-feature-transform $dir/lda.mat $dir/lda_stats"
ln -s -f ../lda.mat $dir/configs/lda.mat
job $dir/log/add_first_layer.log "nnet3-init --srand=-1 $dir/init.raw $dir/configs/final.config $dir/0.raw"
job $dir/log/init_mdl.log "nnet3-am-init $dir/0.trans_mdl $dir/0.raw $dir/0.mdl"

### Iterations ###

objective="--l2-regularize=0.0005 --leaky-hmm-coefficient=0.1"
diagnostic() {     # diagnostic SUBSET NAME
  job $dir/log/compute_prob_$1.$2.log "nnet3-chain-compute-prob $objective --xent-regularize=0.1 --use-gpu=no \
    \"nnet3-am-copy --raw=true $dir/$2.mdl - |\" $dir/den.fst \
    \"ark,bg:nnet3-chain-copy-egs ark:$egs/$1_diagnostic.cegs ark:- | nnet3-chain-merge-egs --minibatch-size=1:64 ark:- ark:- |\""
}

for ((iter = 0; iter < num_iters; iter++)); do
  diagnostic valid $iter &
  diagnostic train $iter &
  if [ $iter -gt 0 ]; then
    job $dir/log/progress.$iter.log "nnet3-am-info $dir/$iter.mdl && nnet3-show-progress --use-gpu=no \
      \"nnet3-am-copy --raw=true $dir/$((iter - 1)).mdl - |\" \"nnet3-am-copy --raw=true $dir/$iter.mdl - |\"" &
  fi
  pids=
  for ((j = 1; j <= num_jobs; j++)); do
    job $dir/log/train.$iter.$j.log "nnet3-chain-train --use-gpu=no --apply-deriv-weights=true $objective --xent-regularize=0.1 \
      --print-interval=10 --momentum=0.0 --max-param-change=2.0 --backstitch-training-scale=0.0 --backstitch-training-interval=1 \
      --l2-regularize-factor=0.5 --srand=$((iter + srand)) --verbose=1 \
      \"nnet3-am-copy --raw=true --learning-rate=$lrate --scale=1.0 $dir/$iter.mdl - |\" $dir/den.fst \
      \"ark,bg:nnet3-chain-copy-egs --frame-shift=$(((iter + j) % 3)) ark:$egs/cegs.$j.ark ark:- | nnet3-chain-shuffle-egs --buffer-size=500 --srand=$((iter + srand)) ark:- ark:- | nnet3-chain-merge-egs --minibatch-size=16,8,4 ark:- ark:- |\" \
      $dir/$((iter + 1)).$j.raw" &
    pids="$pids $!"
  done
  for pid in $pids; do wait $pid || die "a training job of iteration $iter failed"; done
  note "objective $iter $(for ((j = 1; j <= num_jobs; j++)); do objective_of $dir/log/train.$iter.$j.log; done | paste -s -d' ')"
  note "xent $iter $(sed -n "s/^LOG.*Overall average objective function for 'output-xent' is \([-0-9.e]*\) over .* frames.*/\1/p" $dir/log/train.$iter.1.log)"
  job $dir/log/average.$iter.log "nnet3-average $dir/$((iter + 1)).*.raw - | nnet3-am-copy --set-raw-nnet=- $dir/$iter.mdl $dir/$((iter + 1)).mdl"
  wait
  rm $dir/$((iter + 1)).*.raw
done

job $dir/log/combine.log "nnet3-chain-combine --use-gpu=no --max-objective-evaluations=30 $objective --verbose=3 $dir/den.fst \
  $dir/2.mdl $dir/1.mdl \"ark,bg:nnet3-chain-copy-egs ark:$egs/train_diagnostic.cegs ark:- | nnet3-chain-merge-egs --minibatch-size=1:8 ark:- ark:- |\" \
  \"| nnet3-am-copy --set-raw-nnet=- $dir/$num_iters.mdl $dir/final.mdl\""
note "combine $(sed -n 's/^LOG.*Combining \([0-9]*\) nnets, objective function changed from \([-0-9.e]*\) to \([-0-9.e]*\).*/\1 \2 \3/p' $dir/log/combine.log)"
diagnostic valid final &
diagnostic train final &
wait
for name in 0 1 final; do
  note "log-probability $name $(for subset in train valid; do
    sed -n "s/^LOG (nnet3[a-z-]*compute-prob[^:]*:PrintTotalStats():nnet[a-z-]*diagnostics.cc:[0-9]*) Overall log-probability for 'output' is \(.* = \)\{0,1\}\([-0-9.e]*\) per frame.*/\2/p" \
      $dir/log/compute_prob_$subset.$name.log
  done | paste -s -d' ')"
done
note "change 1 $(sed -n 's/^LOG.*Relative parameter differences per layer are \[ \(.*\) \].*/\1/p' $dir/log/progress.1.log)"

### Posteriors of the denominator, and outputs as decoders take them ###

job $dir/log/compute_post.log "nnet3-chain-compute-post --use-gpu=no --frame-subsampling-factor=3 --leaky-hmm-coefficient=0.1 \
  $dir/final.mdl $dir/den.fst \"ark,s,cs:cat $egs/valid.scp | $feats\" ark:$dir/post.ark"
job $dir/log/compute.log "nnet3-compute --use-gpu=no --frame-subsampling-factor=3 --frames-per-chunk=60 \
  $dir/final.mdl \"ark,s,cs:cat $egs/valid.scp | $feats\" ark:$dir/output.ark"
note "rows $(feat-to-len ark:$dir/post.ark 2>/dev/null) $(feat-to-len ark:$dir/output.ark 2>/dev/null)"
echo "$0: done: $dir/final.mdl"
