#!/usr/bin/env bash
# Aligns utterances of known words with a chain model: lattices of the ways to say them, and the best of these as
# alignments, a frame for three of the features.
#
#   local/align.sh --data exp/data/train_sp --lang exp/lang --model exp/e2e --dir exp/e2e_lats

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../utils/recipe.sh"

data=
lang=
model=
dir=
cmvn_opts="--norm-means=true --norm-vars=false"
beam=20
lattice_beam=6
. "$here/../../utils/parse_options.sh"

need $data/{text,feats.scp,cmvn.scp} $lang/{L.fst,words.txt} $model/{tree,final.mdl,frame_subsampling_factor}
mkdir -p $dir
cp $model/{tree,final.mdl,frame_subsampling_factor} $lang/phones.txt $dir
echo 1 > $dir/num_jobs
"$here/words_to_numbers.sh" $lang $data/text > $dir/text.int
feats="ark:apply-cmvn $cmvn_opts --utt2spk=ark:$data/utt2spk scp:$data/cmvn.scp scp:$data/feats.scp ark:- |"
graphs="ark:compile-train-graphs --transition-scale=1.0 --self-loop-scale=1.0 $dir/tree $dir/final.mdl $lang/L.fst \
ark,t:$dir/text.int ark:- |"
run $dir/log/lattices.log nnet3-latgen-faster-parallel --acoustic-scale=1.0 --beam=$beam --lattice-beam=$lattice_beam \
  --word-determinize=false --frame-subsampling-factor=$(cat $model/frame_subsampling_factor) $dir/final.mdl "$graphs" \
  "$feats" "ark:| gzip -c > $dir/lat.1.gz"
run $dir/log/alignments.log lattice-best-path "ark:gunzip -c $dir/lat.1.gz |" ark:/dev/null "ark:| gzip -c > $dir/ali.1.gz"
grep -h 'Done\|Overall' $dir/log/lattices.log | sed 's/^LOG ([^)]*) //' | tail -n 2
