#!/usr/bin/env bash
# The network of a chain model, for the features, i-vectors and tree that it is to be trained with, in DIR/configs.
#
#   local/make_network.sh --data exp/data/train --tree exp/tree --dir exp/chain --width 512 --bottleneck 96 \
#                         --strides "1 1 0 3 3 3" --ivectors exp/ivectors/train

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../utils/recipe.sh"

data=
tree=
dir=
width=
bottleneck=
strides=
ivectors=                 # blank: none
. "$here/../../utils/parse_options.sh"

need $data/feats.scp $tree/tree
rm -rf $dir/configs
mkdir -p $dir/configs
feat_dim=$(feat-to-dim --print-args=false scp:$data/feats.scp -)
ivector_dim=0
[ -z "$ivectors" ] || ivector_dim=$(feat-to-dim --print-args=false scp:$ivectors/ivector_online.scp -)
pitch_dim=0
[ ! -s $data/pitch_dim ] || pitch_dim=$(cat $data/pitch_dim)
num_pdfs=$(tree-info --print-args=false $tree/tree | awk '$1 == "num-pdfs" { print $2 }')
"$here/make_chain_xconfig.sh" $feat_dim $ivector_dim $num_pdfs $dir/configs $width $bottleneck "$strides" \
  $pitch_dim > $dir/configs/network.xconfig
run $dir/log/xconfig.log xconfig-to-configs --xconfig-file $dir/configs/network.xconfig --config-dir $dir/configs
run $dir/log/info.log nnet3-info $dir/configs/ref.raw > $dir/info.txt
echo "$0: $dir: $(grep num-parameters $dir/info.txt), $num_pdfs pdfs"
