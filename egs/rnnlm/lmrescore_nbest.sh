#!/usr/bin/env bash
# Rescore the best paths of the lattices of a decoding folder with an RNN language model, each with its whole history.
#
#   lmrescore_nbest.sh [options] WEIGHT OLD-LANG RNNLM DATA DECODED OUT     for the folders see lmrescore.sh
#     WEIGHT  how much of the old model's costs is replaced
#   --n 10                   how many paths of each lattice
#   --inv-acwt 10            one over the acoustic scale by which they are chosen; 1 for chain models
#   --normalize false        whether probabilities are made to sum to 1

set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../utils/recipe.sh"

n=10
inv_acwt=10
normalize=false
takes_arguments=true
. "$root/egs/utils/parse_options.sh"
[ $# -eq 6 ] || fail "expected WEIGHT OLD-LANG RNNLM DATA DECODED OUT; see --help"
weight=$1
shift
. "$root/egs/rnnlm/common.sh"

for ((job = 1; job <= nj; job++)); do
  parts=$out/nbest.$job log=$out/log/nbest.$job
  mkdir -p "$parts"
  run "$log.paths.log" lattice-to-nbest --acoustic-scale="$(awk "BEGIN { print 1 / $inv_acwt }")" --n=$n \
    "ark:gunzip -c $decoded/lat.$job.gz |" "ark:$parts/with_old.ark"
  run "$log.costs.log" nbest-to-linear "ark:$parts/with_old.ark" ark:/dev/null ark:/dev/null "ark,t:$parts/lm.with_old"
  run "$log.parts.log" nbest-to-linear "$(remove_old 1.0 "ark:$parts/with_old.ark")" "ark:$parts/ali" \
    "ark,t:$parts/words" "ark,t:$parts/lm.without" "ark:$parts/ac"
  run "$log.rnnlm.log" rnnlm-sentence-probs $symbols --normalize-probs=$normalize "$rnnlm/final.raw" "$embedding" \
    "$parts/words" > "$parts/log_probs"
  # Costs of the graph without language model, and those of both models by their weights.
  awk -v weight="$weight" '
    FILENAME ~ /with_old$/ { whole[$1] = $2; next }
    FILENAME ~ /without$/ { graph[$1] = $2; next }
    { cost = 0; for (i = 2; i <= NF; i++) cost -= $i
      print $1, graph[$1] + weight * cost + (1 - weight) * (whole[$1] - graph[$1]) }' \
    "$parts/lm.with_old" "$parts/lm.without" "$parts/log_probs" > "$parts/lm"
  run "$log.lattices.log" nbest-to-lattice \
    "ark:linear-to-nbest ark:$parts/ali ark:$parts/words ark:$parts/lm ark:$parts/ac ark:- |" \
    "ark:| gzip -c > $out/lat.$job.gz"
done
