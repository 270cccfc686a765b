#!/usr/bin/env bash
# Training of a frame-level acoustic model by Kaldi's programs, written out by hand: from features to final.mdl and outputs.
#
#   frames.sh DATA ALI DIR
#
# DATA: feats.scp, utt2spk, spk2utt. ALI: tree, final.mdl, ali.*.gz, num_jobs. Models, logs and DIR/summary appear in DIR.
# Besides Kaldi's programs it needs a shell, awk, sed, grep, sort and gzip. tests/test_kaldi_recipe.py runs it.

set -e -u -o pipefail
export LC_ALL=C

data=$1
ali=$2
dir=$3

left_context=3
right_context=3
frames_per_eg=8
num_valid=4                 # utterances that are held out
num_iters=2
num_jobs=2
initial_lrate=0.004
final_lrate=0.001
minibatch_size=32,16
momentum=0.5
srand=7
egs=$dir/egs

mkdir -p $dir/log $dir/configs $egs/info $egs/log
. "$(dirname "$0")/jobs.sh"
: > $dir/summary

### The data: normalisation by speaker, dimensions ###

job $dir/log/cmvn.log "compute-cmvn-stats --spk2utt=ark:$data/spk2utt scp:$data/feats.scp ark,scp:$dir/cmvn.ark,$dir/cmvn.scp"
job $dir/log/copy_feats.log "copy-feats --compress=true scp:$data/feats.scp ark,scp:$dir/feats.ark,$dir/feats.scp"
note "copied $(sed -n 's/^LOG.*Copied \([0-9]*\) feature matrices.*/\1/p' $dir/log/copy_feats.log)"

feat_dim=$(feat-to-dim --print-args=false scp:$dir/feats.scp -)
num_frames=$(feat-to-len scp:$dir/feats.scp 2>/dev/null)
num_pdfs=$(tree-info --print-args=false $ali/tree 2>/dev/null | grep num-pdfs | awk '{print $2}')
[ $num_pdfs -eq $(am-info $ali/final.mdl 2>/dev/null | awk '/number of pdfs/ {print $NF}') ] || die "tree and model differ"
num_ali=$(cat $ali/num_jobs)
note "feat_dim $feat_dim"
note "num_frames $num_frames"
note "num_pdfs $num_pdfs"

cmvn_opts="--norm-means=true --norm-vars=false"
echo "$cmvn_opts" > $dir/cmvn_opts
cp $ali/tree $dir/tree
echo $num_ali > $dir/num_jobs

awk '{print $1}' $dir/feats.scp | tail -n $num_valid > $egs/valid_uttlist
awk '{print $1}' $dir/feats.scp | drop $egs/valid_uttlist | head -n $num_valid > $egs/train_subset_uttlist

### Examples ###

job $egs/log/copy_ali.log "gunzip -c $ali/ali.*.gz | copy-int-vector ark:- ark,scp:$egs/ali.ark,$egs/ali.scp"
note "alignments $(grep -o 'Copied [0-9]* vectors of int32' $egs/log/copy_ali.log | awk '{print $2}')"

context="--left-context=$left_context --right-context=$right_context"
get_egs="nnet3-get-egs --num-pdfs=$num_pdfs --frame-subsampling-factor=1 $context --compress=true --num-frames=$frames_per_eg"
normalize="apply-cmvn $cmvn_opts --utt2spk=ark:$data/utt2spk scp:$dir/cmvn.scp scp:- ark:- |"
targets="ali-to-pdf $ali/final.mdl scp:- ark:- | ali-to-post ark:- ark:- |"

for part in valid train_subset; do
  list=$egs/${part}_uttlist
  keep $list < $dir/feats.scp > $egs/$part.feats.scp
  keep $list < $egs/ali.scp > $egs/$part.ali.scp
  job $egs/log/create_$part.log "$get_egs \"ark,s,cs:cat $egs/$part.feats.scp | $normalize\" \
    \"ark,s,cs:cat $egs/$part.ali.scp | $targets\" ark:$egs/${part}_all.egs"
done
job $egs/log/subset_valid.log "nnet3-subset-egs --n=60 ark:$egs/valid_all.egs ark:$egs/valid_diagnostic.egs"
job $egs/log/subset_train.log "nnet3-subset-egs --n=60 --randomize-order=false ark:$egs/train_subset_all.egs ark:$egs/train_diagnostic.egs"
job $egs/log/subset_combine.log "nnet3-subset-egs --srand=1 --n=100 ark:$egs/train_subset_all.egs ark:$egs/train_combine.egs"
cat $egs/valid_diagnostic.egs $egs/train_combine.egs > $egs/combine.egs
sed -n 's/^LOG.*Selected a subset of \([0-9]*\) out of \([0-9]*\) neural-network training examples.*/\1 \2/p' \
  $egs/log/subset_valid.log | while read kept all; do note "valid_subset $kept $all"; done

# Two jobs cut the training utterances, each into two pieces; the pieces are then shuffled into two archives.
drop $egs/valid_uttlist < $dir/feats.scp > $egs/train.scp
for j in 1 2; do
  awk -v j=$j 'NR % 2 == j - 1' $egs/train.scp > $egs/train.$j.feats.scp
  keep $egs/train.$j.feats.scp < $egs/ali.scp > $egs/train.$j.ali.scp
done
parallel_jobs 1 2 $egs/log/get_egs.JOB.log "$get_egs \
  \"ark,s,cs:cat $egs/train.JOB.feats.scp | $normalize\" \
  \"ark,s,cs:cat $egs/train.JOB.ali.scp | $targets\" ark:- | \
  nnet3-copy-egs --random=true --srand=\$((JOB + $srand)) ark:- ark:$egs/egs_orig.JOB.1.ark ark:$egs/egs_orig.JOB.2.ark"
parallel_jobs 1 2 $egs/log/shuffle.JOB.log "nnet3-shuffle-egs --srand=\$((JOB + $srand)) \
  \"ark:cat $egs/egs_orig.1.JOB.ark $egs/egs_orig.2.JOB.ark |\" ark:$egs/egs.JOB.ark"
rm $egs/egs_orig.*.ark
num_archives=2
echo $feat_dim > $egs/info/feat_dim
echo $num_archives > $egs/info/num_archives
echo $frames_per_eg > $egs/info/frames_per_eg
note "shuffled $(grep -h -o 'Shuffled order of [0-9]* neural-network training examples' $egs/log/shuffle.*.log | awk '{n += $4} END {print n}')"
# "Read N neural-network training examples, wrote M, E examples had errors."
note "copied_egs $(sed -n 's/^LOG.*Read \([0-9]*\) neural-network training examples, wrote \([0-9]*\), \([0-9]*\) examples had errors.*/\1 \2 \3/p' \
  $egs/log/get_egs.1.log)"

### The network: a transform of the spliced input like that of LDA, then two hidden layers ###

cat > $dir/configs/init.config <<CONFIG
# The splicing alone, for the statistics.
input-node name=input dim=$feat_dim
output-node name=output input=Append(Offset(input, -1), input, Offset(input, 1))
CONFIG
cat > $dir/configs/final.config <<CONFIG
component name=lda type=FixedAffineComponent matrix=$dir/configs/lda.mat
component-node name=lda component=lda input=Append(Offset(input, -1), input, Offset(input, 1))
component name=affine1 type=NaturalGradientAffineComponent input-dim=$((3 * feat_dim)) output-dim=32 max-change=0.75
component-node name=affine1 component=affine1 input=lda
component name=relu1 type=RectifiedLinearComponent dim=32 self-repair-scale=1e-05
component-node name=relu1 component=relu1 input=affine1
component name=norm1 type=BatchNormComponent dim=32
component-node name=norm1 component=norm1 input=relu1
component name=dropout1 type=DropoutComponent dim=32 dropout-proportion=0.0
component-node name=dropout1 component=dropout1 input=norm1
component name=affine2 type=NaturalGradientAffineComponent input-dim=64 output-dim=32 max-change=0.75
component-node name=affine2 component=affine2 input=Append(Offset(dropout1, -2), Offset(dropout1, 2))
component name=tanh2 type=TanhComponent dim=32
component-node name=tanh2 component=tanh2 input=affine2
component name=affine3 type=NaturalGradientAffineComponent input-dim=32 output-dim=$num_pdfs max-change=1.5 param-stddev=0.0 bias-stddev=0.0
component-node name=affine3 component=affine3 input=tanh2
component name=softmax type=LogSoftmaxComponent dim=$num_pdfs
component-node name=softmax component=softmax input=affine3
output-node name=output input=softmax objective=linear
CONFIG

job $dir/log/nnet_init.log "nnet3-init --srand=-2 $dir/configs/init.config $dir/init.raw"
parallel_jobs 1 $num_archives $dir/log/get_lda_stats.JOB.log "nnet3-acc-lda-stats --rand-prune=4.0 $dir/init.raw \
  \"ark:nnet3-copy-egs ark:$egs/egs.JOB.ark ark:- |\" $dir/JOB.lda_stats"
job $dir/log/sum_transform_stats.log "sum-lda-accs $dir/lda_stats $dir/1.lda_stats $dir/2.lda_stats"
job $dir/log/get_transform.log "nnet-get-feature-transform $dir/lda.mat $dir/lda_stats"
rm $dir/*.lda_stats
ln -s -f ../lda.mat $dir/configs/lda.mat
note "lda_dim $(matrix-dim --print-args=false $dir/lda.mat 2>/dev/null | tr '\t' ' ')"

# How often each pdf occurs, which older network scripts scale the last layer by.
parallel_jobs 1 $num_ali $dir/log/acc_pdf.JOB.log "ali-to-post \"ark:gunzip -c $ali/ali.JOB.gz|\" ark:- | \
  post-to-tacc --per-pdf=true $ali/final.mdl ark:- $dir/pdf_counts.JOB"
job $dir/log/sum_pdf_counts.log "vector-sum --binary=false $(for ((j = 1; j <= num_ali; j++)); do echo -n "$dir/pdf_counts.$j "; done) $dir/pdf_counts"
note "pdf_counts $(sed 's/[][]//g' $dir/pdf_counts | awk '{n = 0; for (i = 1; i <= NF; i++) n += int($i); print NF, n}')"

job $dir/log/add_first_layer.log "nnet3-init --srand=-3 $dir/init.raw $dir/configs/final.config $dir/0.raw"
job $dir/log/init_mdl.log "nnet3-am-init $ali/final.mdl $dir/0.raw - | \
  nnet3-am-train-transitions - \"ark:gunzip -c $ali/ali.*.gz|\" $dir/0.mdl"
note "transitions $(sed -n 's/^LOG.*Accumulated transition stats from \([0-9]*\) utterances.*/\1/p' $dir/log/init_mdl.log)"

# The contexts and the size, as scripts read them: from the first four lines.
nnet3-info $dir/0.mdl 2>/dev/null | head -n 4 > $dir/info || true
for name in left-context right-context num-parameters modulus; do note "$name $(sed -n "s/^$name: //p" $dir/info)"; done
note "output_nodes $(nnet3-am-info --print-args=false $dir/0.mdl 2>/dev/null | grep -w output-node | awk '{print $2}' | sed 's/name=//')"

### Iterations ###

diagnostic() {     # diagnostic SUBSET NAME: scores of a model, beside the training
  job $dir/log/compute_prob_$1.$2.log "nnet3-compute-prob ${3:-} --use-gpu=no $dir/$2.mdl \
    \"ark,bg:nnet3-copy-egs ark:$egs/$1_diagnostic.egs ark:- | nnet3-merge-egs --minibatch-size=1:64 ark:- ark:- |\""
}

num_epochs_frames=$((num_iters * num_jobs))
processed=0
for ((iter = 0; iter < num_iters; iter++)); do
  lrate=$(awk -v a=$initial_lrate -v b=$final_lrate -v i=$processed -v n=$num_epochs_frames -v j=$num_jobs -v last=$((iter + 1 >= num_iters)) \
    'BEGIN { print j * (last ? b : a * exp(i * log(b / a) / n)) }')
  diagnostic valid $iter &
  diagnostic train $iter --compute-per-dim-accuracy=true &
  if [ $iter -gt 0 ]; then
    job $dir/log/progress.$iter.log "nnet3-info $dir/$iter.mdl && nnet3-show-progress --use-gpu=no $dir/$((iter - 1)).mdl $dir/$iter.mdl" &
  fi

  proportion=$(awk -v i=$iter -v n=$num_iters 'BEGIN { print 0.1 * i / n }')
  model="nnet3-copy --learning-rate=$lrate --scale=1.0 $dir/$iter.mdl - | nnet3-copy --edits='set-dropout-proportion name=* proportion=$proportion' - - |"
  sizes=$minibatch_size
  change=2.0
  cache="--read-cache=$dir/cache.$iter"
  if [ $iter -eq 0 ]; then sizes=16,8; change=1.41421356237; cache=; fi
  pids=
  for ((j = 1; j <= num_jobs; j++)); do
    k=$((processed + j - 1))
    archive=$((k % num_archives + 1))
    frame=$(((k / num_archives + archive) % frames_per_eg))
    write=
    [ $j -gt 1 ] || write="--write-cache=$dir/cache.$((iter + 1))"
    job $dir/log/train.$iter.$j.log "nnet3-train --use-gpu=no $cache $write --print-interval=10 --momentum=$momentum \
      --max-param-change=$change --backstitch-training-scale=0.0 --l2-regularize-factor=$(awk -v n=$num_jobs 'BEGIN {print 1 / n}') \
      --backstitch-training-interval=1 --srand=$((iter + srand)) --optimization.min-deriv-time=-20 \
      --optimization.max-deriv-time-relative=20 --verbose=1 \"$model\" \
      \"ark,bg:nnet3-copy-egs --frame=$frame ark:$egs/egs.$archive.ark ark:- | nnet3-shuffle-egs --buffer-size=5000 --srand=$((iter + srand)) ark:- ark:- | nnet3-merge-egs --minibatch-size=$sizes ark:- ark:- |\" \
      $dir/$((iter + 1)).$j.raw" &
    pids="$pids $!"
  done
  for pid in $pids; do wait $pid || die "a training job of iteration $iter failed"; done

  # Jobs that end far below the best are left out; the first iteration takes the best one.
  for ((j = 1; j <= num_jobs; j++)); do echo "$(objective_of $dir/log/train.$iter.$j.log) $j"; done > $dir/log/objectives.$iter
  best=$(sort -k1,1gr $dir/log/objectives.$iter | awk 'NR == 1 {print $2}')
  good=$(awk -v best=$(sort -k1,1gr $dir/log/objectives.$iter | awk 'NR == 1 {print $1}') '$1 > best - 1.0 {print $2}' $dir/log/objectives.$iter)
  note "objective $iter $(awk '{print $1}' $dir/log/objectives.$iter | paste -s -d' ')"
  if [ $iter -eq 0 ]; then
    job $dir/log/select.$iter.log "nnet3-copy --scale=1.0 $dir/1.$best.raw - | nnet3-am-copy --set-raw-nnet=- $dir/0.mdl $dir/1.mdl"
  else
    list=$(for j in $good; do echo -n "$dir/$((iter + 1)).$j.raw "; done)
    job $dir/log/average.$iter.log "nnet3-average $list - | nnet3-am-copy --set-raw-nnet=- $dir/$iter.mdl $dir/$((iter + 1)).mdl"
    note "averaged $(sed -n 's/^LOG.*Averaged parameters of \([0-9]*\) neural nets.*/\1/p' $dir/log/average.$iter.log)"
  fi
  wait
  rm -f $dir/$((iter + 1)).*.raw $dir/cache.$iter
  [ -s $dir/$((iter + 1)).mdl ] || die "iteration $iter made no model"
  processed=$((processed + num_jobs))
done
rm -f $dir/cache.*

### The best of the last models, priors, final.mdl ###

newest_first=$(for ((i = num_iters; i > 0; i--)); do echo -n "$dir/$i.mdl "; done)
job $dir/log/combine.log "nnet3-combine --use-gpu=no --max-objective-evaluations=30 --verbose=3 $newest_first \
  \"ark,bg:nnet3-copy-egs ark:$egs/combine.egs ark:- | nnet3-merge-egs --minibatch-size=1:$minibatch_size ark:- ark:- |\" \
  \"| nnet3-am-copy --set-raw-nnet=- $dir/$num_iters.mdl $dir/combined.mdl\""
note "combine $(sed -n 's/^LOG.*Combining \([0-9]*\) nnets, objective function changed from \([-0-9.e]*\) to \([-0-9.e]*\).*/\1 \2 \3/p' $dir/log/combine.log)"
diagnostic valid combined &
diagnostic train combined &

parallel_jobs 1 2 $dir/log/get_post.combined.JOB.log "nnet3-copy-egs ark:$egs/egs.JOB.ark ark:- | \
  nnet3-subset-egs --srand=JOB --n=150 ark:- ark:- | nnet3-merge-egs --minibatch-size=16 ark:- ark:- | \
  nnet3-compute-from-egs --use-gpu=no --apply-exp=true $dir/combined.mdl ark:- ark:- | \
  matrix-sum-rows ark:- ark:- | vector-sum ark:- $dir/post.combined.JOB.vec"
job $dir/log/vector_sum.combined.log "vector-sum $dir/post.combined.1.vec $dir/post.combined.2.vec $dir/post.combined.vec"
job $dir/log/adjust_priors.final.log "nnet3-am-adjust-priors $dir/combined.mdl $dir/post.combined.vec $dir/final.mdl"
wait
note "divergence $(sed -n 's/^LOG.*K-L divergence from old to new is //p' $dir/log/adjust_priors.final.log)"
nnet3-am-info $dir/final.mdl 2>/dev/null > $dir/final.info
note "prior-sum $(sed -n 's/^prior-sum: //p' $dir/final.info)"

### The report of accuracies ###

score() {    # score KEY SUBSET NAME: as report scripts read it, from the head of the line on
  sed -n "s/^LOG (nnet3[a-z-]*compute-prob[^:]*:PrintTotalStats():nnet[a-z-]*diagnostics.cc:[0-9]*) Overall $1 for 'output' is \([-0-9.e]*\) per frame.*/\1/p" \
    $dir/log/compute_prob_$2.$3.log | tail -n 1
}
printf '%%Iter\tduration\ttrain_objective\tvalid_objective\tdifference\n' > $dir/accuracy.report
for name in 0 1 combined; do
  note "accuracy $name $(score accuracy train $name) $(score accuracy valid $name)"
  note "log-likelihood $name $(score log-likelihood train $name) $(score log-likelihood valid $name)"
  [ -f $dir/log/train.$name.1.log ] || continue
  seconds=$(sed -n 's/^# Accounting: time=\([0-9]*\) threads=.*/\1/p' $dir/log/train.$name.1.log)
  awk -v i=$name -v s=$seconds -v t=$(score accuracy train $name) -v v=$(score accuracy valid $name) \
    'BEGIN { printf "%d\t%s\t%g\t%g\t%g\n", i, s, t, v, v - t }' >> $dir/accuracy.report
done
for ((i = 1; i < num_iters; i++)); do
  note "change $i $(sed -n 's/^LOG.*Relative parameter differences per layer are \[ \(.*\) \].*/\1/p' $dir/log/progress.$i.log)"
done
note "saturation $(grep '^component name=tanh2 type=TanhComponent' $dir/log/progress.1.log |
  sed -n 's/.*deriv-avg=\[[^]]*mean=\([-0-9.e]*\), stddev=[-0-9.e]*\].*/\1/p')"
note "parameters $(sed -n 's/^num-parameters: //p' $dir/log/progress.1.log)"

### Outputs of held-out utterances ###

job $dir/log/compute.log "nnet3-compute --use-gpu=no --frames-per-chunk=50 --extra-left-context=0 --extra-right-context=0 \
  --extra-left-context-initial=-1 --extra-right-context-final=-1 --use-priors=false $dir/final.mdl \
  \"ark,s,cs:cat $egs/valid.feats.scp | $normalize\" \"ark:| copy-matrix --apply-exp ark:- ark,scp:$dir/post.ark,$dir/post.scp\""
note "computed $(sed -n 's/^LOG.*Done \([0-9]*\) utterances, failed for \([0-9]*\).*/\1 \2/p' $dir/log/compute.log)"
note "rows $(feat-to-len --print-args=false scp:$dir/post.scp 2>/dev/null) $(keep $egs/valid_uttlist < $dir/feats.scp | feat-to-len scp:- 2>/dev/null)"
job $dir/log/compute_batch.log "nnet3-compute-batch --use-gpu=no --use-priors=true --acoustic-scale=0.1 $dir/final.mdl \
  \"ark,s,cs:cat $egs/valid.feats.scp | $normalize\" \"ark:| copy-feats --compress=true ark:- ark:$dir/scaled.ark\""
echo "$0: done: $dir/final.mdl"
