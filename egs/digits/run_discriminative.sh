#!/usr/bin/env bash
# The TDNN of run.sh trained further with a sequence-discriminative objective, and its words decoded.
#
#   ./run_discriminative.sh                      everything; run.sh --nets tdnn runs before, if there is no such network
#   ./run_discriminative.sh --criterion mmi      with another objective: smbr, mpfe or mmi
#   ./run_discriminative.sh --scheduler tcp://127.0.0.1:8786    jobs on the workers of a dask scheduler
#
# What it makes lies under exp/: exp/lang_words, and exp/tdnn_smbr with the models, their words in decode/ and result.txt.

set -euo pipefail
cd "$(dirname "$0")"
. ../utils/recipe.sh

dir=exp
net=tdnn                  # of run.sh: tdnn, lstm or tdnnf
criterion=smbr
num_epochs=2
learning_rate=0.0002
frames_per_iter=30000
num_jobs=2
lattice_beam=2            # wider lattices of these strings, in which any digit may be anywhere, are very large
scheduler=                # address of a dask scheduler; none: processes here
cmd=                      # such as "queue.pl --mem 2G": how jobs are started; none: processes here
. ../utils/parse_options.sh

has_extra decode || fail "graphs need more packages ($extra_hint)"
[ -s $dir/$net/decode/wer.txt ] || ./run.sh --nets $net --dir $dir --decode true ${scheduler:+--scheduler $scheduler}
need $dir/$net/final.mdl $dir/ali_train/tree
out=$dir/${net}_$criterion
lang=$dir/lang_words
if [ ! -e $lang/.complete ]; then
  run $out/log/lang.log make-graph --phones=$dir/lang/phones.txt --silence-phone=SIL --write-lang=$lang \
    $dir/lang/lexicon.txt loop $dir/ali_train/tree $dir/$net/final.mdl $out/graph_of_lang
  mkdir -p $lang/phones
  cp $out/graph_of_lang/phones/disambig.* $dir/lang/phones/silence.* $lang/phones/
  cp $dir/lang/lexicon.txt $lang/
  touch $lang/.complete
fi
source=$out/source        # the model and what belongs to it
mkdir -p $source
cp $dir/$net/final.mdl $dir/ali_train/tree $dir/lang/phones.txt $source/
echo "--norm-means=false --norm-vars=false" > $source/cmvn_opts

SECONDS=0
train-discriminative ${cmd:+--cmd="$cmd"} ${scheduler:+--scheduler=$scheduler} --feat-dir=$dir/data/train --lang=$lang \
  --src-dir=$source --nj=2 --denlats.lattice-beam=$lattice_beam --egs.num-utts-subset=24 --egs.frames-per-iter=$frames_per_iter \
  --trainer.criterion=$criterion --trainer.num-epochs=$num_epochs --trainer.learning-rate=$learning_rate \
  --trainer.num-jobs=$num_jobs --dir=$out || fail "training failed (its logs: $out/log)"
echo "$0: trained in $SECONDS s"
./local/decode.sh --dir $dir --net $out
for folder in $dir/$net $out; do
  echo "$(basename $folder): $(head -n 1 $folder/decode/wer.txt)"
done | tee $out/result.txt
