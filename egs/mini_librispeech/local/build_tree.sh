#!/usr/bin/env bash
# A tree of phones with the one to their left, from alignments at a third of the frame rate, and these alignments as
# those of the tree. Kaldi: steps/nnet3/chain/build_tree.sh.
#
#   local/build_tree.sh --data exp/data/train_sp --lang exp/lang --ali exp/e2e_lats --dir exp/tree --num-leaves 500

set -euo pipefail
. "$(dirname "$0")/../../utils/recipe.sh"

data=
lang=
ali=
dir=
num_leaves=500
. "$(dirname "$0")/../../utils/parse_options.sh"

need $data/{feats.scp,cmvn.scp,utt2spk} $lang/{topo,phones.txt} $lang/phones/{context_indep.csl,sets.int,roots.int} \
  $ali/{final.mdl,ali.1.gz,frame_subsampling_factor}
mkdir -p $dir
cp $lang/phones.txt $dir/phones.txt
echo 1 > $dir/num_jobs
context="--context-width=2 --central-position=1"
factor=$(cat $ali/frame_subsampling_factor)
feats="ark:apply-cmvn --utt2spk=ark:$data/utt2spk scp:$data/cmvn.scp scp:$data/feats.scp ark:- | add-deltas ark:- ark:- | \
subsample-feats --n=$factor ark:- ark:- |"
alignments="ark:gunzip -c $ali/ali.1.gz |"
run $dir/log/stats.log acc-tree-stats $context --ci-phones=$(cat $lang/phones/context_indep.csl) $ali/final.mdl "$feats" \
  "$alignments" $dir/stats
run $dir/log/cluster.log cluster-phones $context $dir/stats $lang/phones/sets.int $dir/questions.int
cat $lang/phones/extra_questions.int >> $dir/questions.int
run $dir/log/questions.log compile-questions $context $lang/topo $dir/questions.int $dir/questions.qst
run $dir/log/tree.log build-tree $context --max-leaves=$num_leaves --cluster-thresh=-1 $dir/stats $lang/phones/roots.int \
  $dir/questions.qst $lang/topo $dir/tree
run $dir/log/model.log gmm-init-model --write-occs=$dir/final.occs $dir/tree $dir/stats $lang/topo $dir/final.mdl
run $dir/log/convert.log convert-ali $ali/final.mdl $dir/final.mdl $dir/tree "$alignments" "ark:| gzip -c > $dir/ali.1.gz"
echo "$0: $(tree-info --print-args=false $dir/tree | grep num-pdfs)"
