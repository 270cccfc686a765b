#!/usr/bin/env bash
# Word error rates of lattices, in DIR/wer_WEIGHT_PENALTY, and the best of them in DIR/wer. With --like the weight of the
# language model and the penalty for each word are those that were best in another folder.
#
#   local/score.sh --data exp/data/dev --words exp/chain/graph/words.txt --dir exp/chain/decode_dev
#   local/score.sh --data exp/data/test --words exp/chain/graph/words.txt --dir exp/chain/decode_test --like exp/chain/decode_dev

set -euo pipefail
. "$(dirname "$0")/../../utils/recipe.sh"

data=
words=
dir=
like=
weights="7 8 9 10 11 12 13 14 15 16 17"
penalties="0.0 0.5 1.0"
. "$(dirname "$0")/../../utils/parse_options.sh"

need $data/text $words $dir/lat.1.gz
if [ -n "$like" ]; then
  need $like/best
  read -r weights penalties < $like/best
fi
rm -f $dir/wer_* $dir/wer $dir/best
for penalty in $penalties; do
  for weight in $weights; do
    run $dir/log/best_path.log lattice-scale --inv-acoustic-scale=$weight "ark:gunzip -c $dir/lat.1.gz |" \
      "ark:| lattice-add-penalty --word-ins-penalty=$penalty ark:- 'ark:| lattice-best-path ark:- ark,t:$dir/words.int'"
    awk 'NR == FNR { name[$2] = $1; next } { for (i = 2; i <= NF; i++) $i = name[$i]; print }' $words $dir/words.int \
      > $dir/text_${weight}_$penalty
    run $dir/log/wer.log compute-wer --text --mode=present ark:$data/text ark:$dir/text_${weight}_$penalty \
      > $dir/wer_${weight}_$penalty
  done
done
best=$(grep -H '^%WER' $dir/wer_* | sed 's/^.*\/wer_\([^:]*\):%WER \([0-9.]*\).*/\2 \1/' | sort -n -s -k1,1 | head -n 1 | cut -d' ' -f2)
echo "${best%_*} ${best#*_}" > $dir/best
{ cat $dir/wer_$best; echo "language model weight ${best%_*}, word penalty ${best#*_}"; } > $dir/wer
