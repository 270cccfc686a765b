#!/usr/bin/env bash
# What training from a flat start needs: a tree without context, the graphs of the denominator, and graphs and examples of
# whole utterances.
#
#   local/prepare_e2e.sh --stage tree --lang exp/lang --data exp/data/train_e2e --dir exp/e2e --tree exp/e2e_tree
#   local/prepare_e2e.sh --stage egs …, with the same options, once the network is in --dir/configs
#
# The lengths that utterances may have stand in DATA/allowed_lengths.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../utils/recipe.sh"

stage=
lang=
data=
dir=
tree=
cmvn_opts="--norm-means=true --norm-vars=false"
frames_per_iter=150000
num_held_out=20           # utterances that training does not see, for its diagnostics
. "$here/../../utils/parse_options.sh"

need $lang/{topo,phones.txt,L.fst,lexicon.txt,phones/sets.int} $data/{text,feats.scp,cmvn.scp}

if [ "$stage" = tree ]; then
  mkdir -p $tree
  cp $lang/phones.txt $tree/phones.txt
  echo 1 > $tree/num_jobs
  run $tree/log/tree.log make-mono-tree --shared-phones=$lang/phones/sets.int $lang/topo $tree/tree $tree/final.mdl
  oov=
  [ ! -s $lang/oov.txt ] || oov="--unknown-word=$(cat $lang/oov.txt)"
  run $tree/log/phones.log text-to-phones --phones=$lang/phones.txt --silence-phone=$(cat $lang/phones/optional_silence.txt) \
    $oov $lang/lexicon.txt $data/text ark:$tree/phones.ark
  run $tree/log/phone_lm.log chain-est-phone-lm --num-extra-lm-states=2000 ark:$tree/phones.ark $tree/phone_lm.fst
  run $tree/log/den_fst.log chain-make-den-fst $tree/tree $tree/final.mdl $tree/phone_lm.fst $tree/den.fst \
    $tree/normalization.fst
  "$here/words_to_numbers.sh" $lang $data/text > $tree/text.int
  run $tree/log/graphs.log compile-train-graphs $tree/tree $tree/final.mdl $lang/L.fst ark,t:$tree/text.int \
    ark,scp:$tree/graphs.ark,$tree/graphs.scp
  exit 0
fi

[ "$stage" = egs ] || fail "--stage is tree or egs, not '$stage'"
need $data/allowed_lengths $dir/configs/vars $tree/{graphs.scp,normalization.fst}
egs=$dir/egs
rm -rf $egs
mkdir -p $egs/info
. $dir/configs/vars
left=$((model_left_context + 1)) right=$((model_right_context + 1))          # examples are shifted by a frame
total=$(awk '{ n += $2 } END { print n }' $data/utt2num_frames)
archives=$((total / frames_per_iter + 1))
# Both copies of an utterance are held out together: the lists go by the name without the copy's.
awk '{ key = $1; sub(/^pv[0-9]*-/, "", key); print key }' $tree/graphs.scp | sort -u > $egs/keys
every() {   # every N FILE: about N lines of the file, evenly spread
  awk -v n=$1 -v total=$(wc -l < $2) '(NR - 1) % int(total / n + 1) == 0' $2
}
every $num_held_out $egs/keys > $egs/held_out
pick() {   # pick IN: graphs of utterances that are held out (1) or not (0)
  awk -v want=$1 'NR == FNR { held[$1]; next } { key = $1; sub(/^pv[0-9]*-/, "", key); if ((key in held) == want) print }' \
    $egs/held_out $tree/graphs.scp
}
pick 1 > $egs/valid.scp
pick 0 > $egs/train.scp
every $((2 * num_held_out)) $egs/train.scp > $egs/some.scp
need $egs/{valid,train,some}.scp
feats="ark:apply-cmvn $cmvn_opts --utt2spk=ark:$data/utt2spk scp:$data/cmvn.scp scp:$data/feats.scp ark:- |"
make_egs() {   # make_egs LOG GRAPHS EGS
  run $dir/log/$1.log nnet3-chain-e2e-get-egs --left-context=$left --right-context=$right --frame-subsampling-factor=3 \
    --num-frames=$(cat $data/allowed_lengths) $tree/normalization.fst "$feats" scp:$2 $tree/final.mdl "$3"
}
make_egs egs_valid $egs/valid.scp ark:$egs/valid_diagnostic.cegs
make_egs egs_some $egs/some.scp ark:$egs/train_diagnostic.cegs
cp $egs/train_diagnostic.cegs $egs/combine.cegs
outputs=$(for ((n = 1; n <= archives; n++)); do echo "ark:$egs/whole.$n.ark"; done | xargs)
make_egs egs_train $egs/train.scp "ark:| nnet3-chain-copy-egs --random=true --srand=1 ark:- $outputs"
for ((n = 1; n <= archives; n++)); do
  run $dir/log/shuffle.$n.log nnet3-chain-shuffle-egs --srand=$n ark:$egs/whole.$n.ark ark:$egs/cegs.$n.ark
  rm $egs/whole.$n.ark
done
echo $archives > $egs/info/num_archives
echo -1 > $egs/info/frames_per_eg
echo $total > $egs/info/num_frames
echo 3 > $egs/info/frame_subsampling_factor
feat-to-dim --print-args=false scp:$data/feats.scp - > $egs/info/feat_dim
echo 0 > $egs/info/ivector_dim
echo $left > $egs/info/left_context
echo $right > $egs/info/right_context
echo -1 | tee $egs/info/left_context_initial > $egs/info/right_context_final
