#!/usr/bin/env bash
# An i-vector extractor: a transform of spliced features, a mixture of Gaussians of them, and the extractor itself. Kaldi:
# steps/online/nnet2/get_pca_transform.sh, train_diag_ubm.sh and train_ivector_extractor.sh.
#
#   local/train_ivectors.sh --data exp/data/train_sp --dir exp/extractor --num-gauss 512 --ivector-dim 100

set -euo pipefail
. "$(dirname "$0")/../../utils/recipe.sh"

data=
dir=
num_gauss=512
ivector_dim=100
num_iters=10              # of the extractor
num_iters_gauss=4
num_frames=200000         # that the mixture begins with
subsample=2               # frames of which one is used
pca_dim=40
. "$(dirname "$0")/../../utils/parse_options.sh"

need $data/{feats.scp,cmvn.scp,spk2utt}
mkdir -p $dir
echo "--left-context=3 --right-context=3" > $dir/splice_opts
: > $dir/online_cmvn.conf            # the defaults
run $dir/log/cmvn.log matrix-sum --binary=false scp:$data/cmvn.scp $dir/global_cmvn.stats
every_nth="subsample-feats --n=$subsample ark:- ark:- |"
normalized="apply-cmvn-online --spk2utt=ark:$data/spk2utt $dir/global_cmvn.stats scp:$data/feats.scp ark:- | \
splice-feats $(cat $dir/splice_opts) ark:- ark:- |"
run $dir/log/pca.log est-pca --dim=$pca_dim --normalize-variance=true --normalize-mean=true \
  "ark:$normalized subsample-feats --n=10 ark:- ark:- |" $dir/final.mat
transformed="$normalized transform-feats $dir/final.mat ark:- ark:- |"

run $dir/log/gauss.init.log gmm-global-init-from-feats --num-frames=$num_frames --num-gauss=$num_gauss \
  --num-gauss-init=$((num_gauss / 2)) --num-iters=10 "ark:$transformed $every_nth" $dir/0.dubm
run $dir/log/gselect.log gmm-gselect --n=30 $dir/0.dubm "ark:$transformed $every_nth" "ark:| gzip -c > $dir/gselect.gz"
for ((n = 0; n < num_iters_gauss; n++)); do
  remove=false                       # the selection holds as long as all Gaussians are there
  [ $((n + 1)) -lt $num_iters_gauss ] || remove=true
  run $dir/log/gauss.acc.$n.log gmm-global-acc-stats "--gselect=ark:gunzip -c $dir/gselect.gz |" $dir/$n.dubm \
    "ark:$transformed $every_nth" $dir/gauss.acc
  run $dir/log/gauss.est.$n.log gmm-global-est --remove-low-count-gaussians=$remove --min-gaussian-weight=0.0001 \
    $dir/$n.dubm $dir/gauss.acc $dir/$((n + 1)).dubm
done
mv $dir/$n.dubm $dir/final.dubm
rm -f $dir/[0-9]*.dubm $dir/gselect.gz $dir/gauss.acc

run $dir/log/init.log ivector-extractor-init --ivector-dim=$ivector_dim --use-weights=false \
  "gmm-global-to-fgmm $dir/final.dubm - |" $dir/0.ie
run $dir/log/posteriors.log gmm-global-get-post --n=5 --min-post=0.025 $dir/final.dubm "ark:$transformed $every_nth" \
  "ark:| scale-post ark:- $(awk "BEGIN { print 0.1 * $subsample }") 'ark:| gzip -c > $dir/post.gz'"
plain="ark:splice-feats $(cat $dir/splice_opts) scp:$data/feats.scp ark:- | transform-feats $dir/final.mat ark:- ark:- | $every_nth"
for ((n = 0; n < num_iters; n++)); do
  run $dir/log/acc.$n.log ivector-extractor-acc-stats $dir/$n.ie "$plain" "ark:gunzip -c $dir/post.gz |" $dir/acc
  run $dir/log/est.$n.log ivector-extractor-est $dir/$n.ie $dir/acc $dir/$((n + 1)).ie
done
mv $dir/$n.ie $dir/final.ie
rm -f $dir/[0-9]*.ie $dir/post.gz $dir/acc
echo "$0: $(sed -n 's/.*\(Overall auxf.*\|Overall objective.*\|objective function.*per frame.*\)/\1/p' $dir/log/est.$((n - 1)).log | tail -n 1)"
