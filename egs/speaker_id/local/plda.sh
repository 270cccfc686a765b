#!/usr/bin/env bash
# Score trials by PLDA with Kaldi's programs, as its speaker recipes do, and print the equal-error rate in percent.
#
#   local/plda.sh --train ark:exp/xvector/train.ark --utt2spk TRAIN_UTT2SPK --test ark:exp/xvector/test.ark \
#                 --trials exp/trials --dir exp/xvector/plda --lda-dims 20,40
#
# A line of the trials is `UTTERANCE UTTERANCE target|nontarget`. Vectors less their mean, in the directions in which the
# training speakers differ most (--lda-dims: how many; one or more numbers), and of the usual length, are what PLDA is
# trained on and scores. It makes, in --dir, mean.vec and for each dimension lda-DIM.mat, plda-DIM and plda-DIM.scores.

set -euo pipefail
cd "$(dirname "$0")/.."
. ../utils/recipe.sh

train=
utt2spk=
test=
trials=
dir=
lda_dims=40
. ../utils/parse_options.sh

need $utt2spk $trials
[ -n "$train" ] && [ -n "$test" ] && [ -n "$dir" ] || fail "--train, --test and --dir are needed; see --help"
log=$dir/log
mkdir -p $log
awk '{ of[$2] = of[$2] " " $1 } END { for (speaker in of) print speaker of[speaker] }' $utt2spk | sort -k1,1 > $dir/spk2utt
cut -d' ' -f1,2 $trials > $dir/pairs
run $log/mean.log ivector-mean $train $dir/mean.vec
centered="ark:ivector-subtract-global-mean $dir/mean.vec"
for dim in ${lda_dims//,/ }; do
  run $log/lda-$dim.log ivector-compute-lda --dim=$dim --total-covariance-factor=0.1 "$centered $train ark:- |" \
    ark:$utt2spk $dir/lda-$dim.mat
  reduced="ark:- | transform-vec $dir/lda-$dim.mat ark:- ark:- | ivector-normalize-length ark:- ark:- |"
  run $log/plda-$dim.log ivector-compute-plda ark:$dir/spk2utt "$centered $train $reduced" $dir/plda-$dim
  run $log/scores-$dim.log ivector-plda-scoring $dir/plda-$dim "$centered $test $reduced" "$centered $test $reduced" \
    $dir/pairs $dir/plda-$dim.scores
  awk 'NR == FNR { label[$1, $2] = $3; next } { print $3, label[$1, $2] }' $trials $dir/plda-$dim.scores \
    > $dir/plda-$dim.labeled
  printf 'plda-%s %.2f\n' $dim "$(run $log/eer-$dim.log compute-eer $dir/plda-$dim.labeled)"
done
