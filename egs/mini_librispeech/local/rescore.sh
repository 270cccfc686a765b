#!/usr/bin/env bash
# Lattices with the costs of a larger language model, a const-ARPA file, in place of those that they have. Kaldi:
# steps/lmrescore_const_arpa.sh.
#
#   local/rescore.sh --old exp/lang_lm/G.fst --new exp/lang_lm/G.carpa --from exp/chain/decode_test --dir exp/chain/decode_test_large

set -euo pipefail
. "$(dirname "$0")/../../utils/recipe.sh"

old=
new=
from=
dir=
. "$(dirname "$0")/../../utils/parse_options.sh"

need $old $new $from/lat.1.gz
mkdir -p $dir
run $dir/log/rescore.log lattice-lmrescore --lm-scale=-1.0 "ark:gunzip -c $from/lat.1.gz |" \
  "fstproject --project_output=true $old |" \
  "ark:| lattice-lmrescore-const-arpa --lm-scale=1.0 ark:- $new 'ark:| gzip -c > $dir/lat.1.gz'"
