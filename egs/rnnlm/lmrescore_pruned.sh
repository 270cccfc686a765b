#!/usr/bin/env bash
# Rescore the lattices of a decoding folder with an RNN language model, within a beam; its arguments are Kaldi's.
#
#   lmrescore_pruned.sh [options] OLD-LANG RNNLM DATA DECODED OUT       for the folders see lmrescore.sh
#   --acwt 0.1               the acoustic scale; 1 for chain models
#   --weight 0.5             how much of the old model's costs is replaced
#   --max-ngram-order 4      histories with the same last three words are taken for one
#   --normalize false        whether probabilities are made to sum to 1, which takes much longer
#   --lattice-prune-beam 4   how much worse than the best a path may be
#   --max-arcs 100000        the most arcs of a lattice

set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../utils/recipe.sh"

acwt=0.1
weight=0.5
max_ngram_order=4
normalize=false
lattice_prune_beam=4
max_arcs=100000
takes_arguments=true
. "$root/egs/utils/parse_options.sh"
. "$root/egs/rnnlm/common.sh"

old=$lang/G.fst is_carpa=false
if [ ! -s "$old" ]; then
  old=$lang/G.carpa is_carpa=true
fi
for ((job = 1; job <= nj; job++)); do
  run "$out/log/rescore.$job.log" lattice-lmrescore-kaldi-rnnlm-pruned --lm-scale=$weight --acoustic-scale=$acwt \
    $symbols --max-ngram-order=$max_ngram_order --normalize-probs=$normalize --max-arcs=$max_arcs \
    --lattice-compose-beam=$lattice_prune_beam --use-const-arpa=$is_carpa "$old" "$embedding" "$rnnlm/final.raw" \
    "ark:gunzip -c $decoded/lat.$job.gz |" "ark:| gzip -c > $out/lat.$job.gz"
done
