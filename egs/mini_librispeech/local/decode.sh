#!/usr/bin/env bash
# Lattices of utterances, by a chain model and a graph.
#
#   local/decode.sh --data exp/data/test --model exp/chain --graph exp/chain/graph --dir exp/chain/decode_test \
#                   --ivectors exp/ivectors/test

set -euo pipefail
. "$(dirname "$0")/../../utils/recipe.sh"

data=
model=
graph=
dir=
ivectors=
beam=15
lattice_beam=8
max_active=7000
num_threads=0             # 0: as many as there are cores
. "$(dirname "$0")/../../utils/parse_options.sh"

need $data/{feats.scp,text} $model/{final.mdl,frame_subsampling_factor} $graph/{HCLG.fst,words.txt}
options=()
[ -z "$ivectors" ] || options=(--online-ivectors=scp:$ivectors/ivector_online.scp
  --online-ivector-period="$(cat $ivectors/ivector_period)")
mkdir -p $dir
# Costs are written ten times as large, so that language model weights are numbers about 10, as with other models.
run $dir/log/decode.log nnet3-latgen-faster-parallel --num-threads=$num_threads --acoustic-scale=1.0 --beam=$beam \
  --lattice-beam=$lattice_beam --max-active=$max_active --frames-per-chunk=150 \
  --frame-subsampling-factor=$(cat $model/frame_subsampling_factor) ${options[@]+"${options[@]}"} \
  --word-symbol-table=$graph/words.txt $model/final.mdl $graph/HCLG.fst scp:$data/feats.scp \
  "ark:| lattice-scale --acoustic-scale=10.0 ark:- 'ark:| gzip -c > $dir/lat.1.gz'"
