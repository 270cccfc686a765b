#!/usr/bin/env bash
# Compare networks without the test speakers: of the training speakers every fifth is held out, each candidate of
# local/candidates.txt is trained on the others, and the equal-error rates on those held out are printed.
#
#   local/choose.sh                           all candidates
#   local/choose.sh --only "first smaller"    some of them
#
# The table's last column is in percent. What is done is not done again: remove exp/choose, or the folder of a candidate
# whose options have changed.

set -euo pipefail
cd "$(dirname "$0")/.."
. ../utils/recipe.sh

only=
data=../digits/data
dir=exp/choose
lda_dims=5,10,15,20,30,40
. ../utils/parse_options.sh

[ -s $dir/data/test/utt2spk ] || run $dir/log/hold_out.log python local/hold_out_speakers.py $data/train $dir/data
grep -v '^#' local/candidates.txt | while read -r name options; do
  if [ -n "$only" ] && [[ " $only " != *" $name "* ]]; then continue; fi
  [ ! -s $dir/$name/results.txt ] || continue
  stage=0; [ ! -e $dir/egs/info/frames_per_eg ] || stage=2     # all learn from the same examples
  ./run.sh --stage $stage --data $dir/data --dir $dir/$name --egs $dir/egs \
    --mean-lda-dims $lda_dims --xvector-lda-dims $lda_dims $options < /dev/null
done

awk 'FILENAME ~ /\/results.txt$/ { n = split(FILENAME, part, "/"); print $1 == "mean" ? "-" : part[n - 1], $0 }' \
  $dir/*/results.txt | sort -u -k2,2 -k4,4n -k1,1 -k3,3 | column -t
