#!/usr/bin/env bash
# The digit strings that a network hears in the test data, any digit following any other, and its word error rate.
#
#   local/decode.sh --net exp/tdnn
#   local/decode.sh --net exp/chain --tree exp/chain_tree/tree --self-loop-scale 1.0 --acoustic-scale 1.0 \
#                   --options "--frame-subsampling-factor=3"
#
# What it makes, in the folder of --net: graph/, decode/lat.ark, decode/words.txt, decode/per_utt and decode/wer.txt.

set -euo pipefail
cd "$(dirname "$0")/.."
. ../utils/recipe.sh

dir=exp                   # with data/test and lang, as local/make_kaldi_dirs.sh makes them
net=exp/tdnn
tree=                     # blank: that of --dir/ali_train
lang=                     # with the phones of the tree; blank: --dir/lang
self_loop_scale=0.1
acoustic_scale=0.1
beam=13
options=                  # further ones of nnet3-latgen-faster
. ../utils/parse_options.sh

lang=${lang:-$dir/lang}
need $net/final.mdl $lang/{lexicon,phones}.txt $dir/data/test/{feats.scp,text}
log=$net/decode/log
run $log/graph.log make-graph --phones=$lang/phones.txt --silence-phone=SIL --self-loop-scale=$self_loop_scale \
  $lang/lexicon.txt loop ${tree:-$dir/ali_train/tree} $net/final.mdl $net/graph
run $log/decode.log nnet3-latgen-faster --acoustic-scale=$acoustic_scale --beam=$beam --frames-per-chunk=150 $options \
  --word-symbol-table=$net/graph/words.txt $net/final.mdl $net/graph/HCLG.fst scp:$dir/data/test/feats.scp \
  ark:$net/decode/lat.ark ark,t:$net/decode/words.txt
run $log/wer.log word-error-rate --word-symbol-table=$net/graph/words.txt --details=$net/decode/per_utt \
  $dir/data/test/text $net/decode/words.txt > $net/decode/wer.txt
