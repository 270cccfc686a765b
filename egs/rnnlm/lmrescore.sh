#!/usr/bin/env bash
# Rescore all of the lattices of a decoding folder with an RNN language model; its arguments are Kaldi's.
#
#   lmrescore.sh [options] OLD-LANG RNNLM DATA DECODED OUT
#     OLD-LANG  words.txt and G.carpa or G.fst, the model that the lattices have the costs of
#     RNNLM     final.raw, special_symbol_opts.txt, word_feats.txt with feat_embedding.final.mat, config/words.txt
#     DATA      is not looked at
#     DECODED   lat.N.gz and num_jobs; OUT gets the same
#   --weight 0.5             how much of the old model's costs is replaced
#   --max-ngram-order 4      histories with the same last three words are taken for one
#   --normalize false        whether probabilities are made to sum to 1, which takes much longer
#
# lmrescore_pruned.sh is faster, and exact about back-off arcs.

set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../utils/recipe.sh"

weight=0.5
max_ngram_order=4
normalize=false
takes_arguments=true
. "$root/egs/utils/parse_options.sh"
. "$root/egs/rnnlm/common.sh"

for ((job = 1; job <= nj; job++)); do
  run "$out/log/rescore.$job.log" lattice-lmrescore-kaldi-rnnlm --lm-scale=$weight $symbols \
    --max-ngram-order=$max_ngram_order --normalize-probs=$normalize "$embedding" "$rnnlm/final.raw" \
    "$(remove_old $weight "ark:gunzip -c $decoded/lat.$job.gz |")" "ark:| gzip -c > $out/lat.$job.gz"
done
