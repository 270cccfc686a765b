#!/usr/bin/env bash
# A model folder of a chain model with i-vectors, laid out as the packages of vosk: am/, conf/, graph/, ivector/.
#
#   local/make_package.sh --model exp/chain --graph exp/chain/graph --lang exp/lang --extractor exp/extractor --conf conf \
#                         --dir exp/model
#
# --rescore LANG and --rnnlm DIR add language models for rescoring: rescore/ with the folder's G.fst and G.carpa, rnnlm/.

set -euo pipefail
. "$(dirname "$0")/../../utils/recipe.sh"

model=
graph=
lang=
extractor=
conf=                     # folder with mfcc.conf, model.conf, to which the phones of silence are added, perhaps model_README.md
rescore=
rnnlm=                    # of nnet3py train-rnnlm, with the words of the graph
dir=
. "$(dirname "$0")/../../utils/parse_options.sh"

need $model/final.mdl $graph/{HCLG.fst,words.txt} $lang/phones/silence.csl $conf/{mfcc.conf,model.conf} \
  $extractor/{final.ie,final.dubm,final.mat,global_cmvn.stats,splice_opts}
rm -rf $dir
mkdir -p $dir/{am,conf,graph/phones,ivector}
# Without the output for cross-entropy, which helps in training only, and with the batch normalization of a finished model.
run $dir/../package.log nnet3-am-copy --prepare-for-test=true \
  --edits="remove-output-nodes name=output-xent; remove-orphans" $model/final.mdl $dir/am/final.mdl
[ ! -s $conf/model_README.md ] || cp $conf/model_README.md $dir/README.md
{ cat $conf/mfcc.conf; grep -q '^--dither=' $conf/mfcc.conf || echo "--dither=0"; } > $dir/conf/mfcc.conf
{ cat $conf/model.conf; echo "--endpoint.silence-phones=$(cat $lang/phones/silence.csl)"; } > $dir/conf/model.conf
cp $graph/{HCLG.fst,words.txt} $dir/graph
cp $lang/phones.txt $dir/graph
# Without it, that is of phones that do not depend on their position in a word, times of words are less exact.
[ ! -s $lang/phones/word_boundary.int ] || cp $lang/phones/word_boundary.int $dir/graph/phones
cp $extractor/{final.ie,final.dubm,final.mat,global_cmvn.stats} $dir/ivector
tr ' ' '\n' < $extractor/splice_opts > $dir/ivector/splice.conf
: > $dir/ivector/online_cmvn.conf     # the defaults
if [ -n "$rescore" ]; then
  need $rescore/{G.fst,G.carpa}
  mkdir $dir/rescore
  cp $rescore/{G.fst,G.carpa} $dir/rescore
fi
if [ -n "$rnnlm" ]; then
  need $rnnlm/{final.raw,feat_embedding.final.mat,word_feats.txt,special_symbol_opts.conf}
  mkdir $dir/rnnlm
  cp $rnnlm/{final.raw,feat_embedding.final.mat,word_feats.txt,special_symbol_opts.conf} $dir/rnnlm
fi
echo "$0: $dir: $(du -sk $dir | cut -f1) kB"
