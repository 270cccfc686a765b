#!/usr/bin/env bash
# A model folder of a chain model with i-vectors, laid out as the packages of vosk: am/, conf/, graph/, ivector/.
#
#   local/make_package.sh --model exp/chain --graph exp/chain/graph --lang exp/lang --extractor exp/extractor --conf conf \
#                         --dir exp/model

set -euo pipefail
. "$(dirname "$0")/../../utils/recipe.sh"

model=
graph=
lang=
extractor=
conf=                     # folder with mfcc.conf, model.conf, to which the phones of silence are added, and model_README.md
dir=
. "$(dirname "$0")/../../utils/parse_options.sh"

need $model/final.mdl $graph/{HCLG.fst,words.txt} $lang/phones/{silence.csl,word_boundary.int} $conf/{mfcc.conf,model.conf,model_README.md} \
  $extractor/{final.ie,final.dubm,final.mat,global_cmvn.stats,splice_opts}
rm -rf $dir
mkdir -p $dir/{am,conf,graph/phones,ivector}
# Without the output for cross-entropy, which helps in training only, and with the batch normalization of a finished model.
run $dir/../package.log nnet3-am-copy --prepare-for-test=true \
  --edits="remove-output-nodes name=output-xent; remove-orphans" $model/final.mdl $dir/am/final.mdl
cp $conf/model_README.md $dir/README.md
cp $conf/mfcc.conf $dir/conf
{ cat $conf/model.conf; echo "--endpoint.silence-phones=$(cat $lang/phones/silence.csl)"; } > $dir/conf/model.conf
cp $graph/{HCLG.fst,words.txt} $dir/graph
cp $lang/phones.txt $dir/graph
cp $lang/phones/word_boundary.int $dir/graph/phones
cp $extractor/{final.ie,final.dubm,final.mat,global_cmvn.stats} $dir/ivector
tr ' ' '\n' < $extractor/splice_opts > $dir/ivector/splice.conf
: > $dir/ivector/online_cmvn.conf     # the defaults
echo "$0: $dir: $(du -sk $dir | cut -f1) kB"
