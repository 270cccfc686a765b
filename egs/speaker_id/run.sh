#!/usr/bin/env bash
# Telling speakers apart: an x-vector network, from features to an equal-error rate on speakers it never heard.
#
#   ./run.sh                 everything
#   ./run.sh --stage 3       from training on
#
# What it makes lies under exp/: examples, the network, embeddings (exp/xvector/TEST.ark), trials and exp/results.txt.

set -euo pipefail
cd "$(dirname "$0")"
. ../utils/recipe.sh

stage=0
data=../digits/data
dir=exp
egs=                      # none: DIR/egs
# These, num_epochs to final_lrate, and the dimensions for scoring were chosen with local/choose.sh.
tdnn_dims=96,192          # units of the two layers that look at frames
embedding_dim=64
dropout=0.2
l2=0.01
num_archives=8
pieces_per_speaker=50     # in each archive
min_frames=60
max_frames=120
num_epochs=1.5
num_jobs=2
initial_lrate=0.001
final_lrate=0.0001
minibatch_size=64
mean_lda_dims=15          # one or more, such as 10,20
xvector_lda_dims=40
cmd=                      # such as "queue.pl --mem 2G": how jobs are started; none: processes here
. ../utils/parse_options.sh

egs=${egs:-$dir/egs}
net=$dir/xvector

if [ $stage -le 0 ]; then
  echo "$0: checking the data"
  for part in train test; do
    need $data/$part/{feats.ark,utt2spk,utt2num_frames}
  done
  both=$(cut -d' ' -f2 $data/train/utt2spk | sort -u | comm -12 - <(cut -d' ' -f2 $data/test/utt2spk | sort -u) | xargs)
  [ -z "$both" ] || fail "speakers of $data/test must not be in $data/train: $both"
fi

if [ $stage -le 1 ]; then
  echo "$0: making examples"
  rm -rf $egs
  python local/make_ranges.py --num-archives $num_archives --pieces-per-speaker $pieces_per_speaker \
    --min-frames $min_frames --max-frames $max_frames $data/train/utt2spk $data/train/utt2num_frames $egs
  num_speakers=$(wc -l < $egs/speakers.txt)
  outputs=()
  for ((i = 1; i <= num_archives; i++)); do outputs+=("ark:| nnet3-shuffle-egs --srand=$i ark:- ark:$egs/egs.$i.ark"); done
  run $egs/log/get_egs.log nnet3-xvector-get-egs --num-pdfs=$num_speakers $egs/ranges ark:$data/train/feats.ark \
    "${outputs[@]}" ark:$egs/train_diagnostic.egs ark:$egs/valid_diagnostic.egs
  cat $egs/train_diagnostic.egs $egs/valid_diagnostic.egs > $egs/combine.egs
  mkdir -p $egs/info
  feat-to-dim --print-args=false ark:$data/train/feats.ark $egs/info/feat_dim
  echo $num_archives > $egs/info/num_archives
  echo $((num_speakers * pieces_per_speaker)) > $egs/info/egs_per_archive
  echo 1 > $egs/info/frames_per_eg     # the one output of a piece
  echo 0 > $egs/info/left_context      # the network begins with the piece,
  echo $((min_frames - 1)) > $egs/info/right_context   # and needs no more of it than the shortest has
fi

if [ $stage -le 2 ]; then
  echo "$0: making the network"
  rm -rf $net
  mkdir -p $net/configs
  # Layers that look at a few frames, the mean and standard deviation over the whole utterance of what they see, and
  # layers that tell from these whose voice it is. The embedding is the output of xvector.
  cat > $net/configs/network.xconfig <<XCONFIG
input dim=$(cat $egs/info/feat_dim) name=input
batchnorm-component name=norm input=input
relu-batchnorm-layer name=tdnn1 dim=${tdnn_dims%,*} input=Append(-2,-1,0,1,2) l2-regularize=$l2
relu-batchnorm-dropout-layer name=tdnn2 dim=${tdnn_dims#*,} input=Append(-2,0,2) dropout-proportion=$dropout dropout-per-dim=true l2-regularize=$l2
stats-layer name=stats config=mean+stddev(0:1:1:10000)
batchnorm-component name=stats-norm input=stats
affine-layer name=xvector dim=$embedding_dim l2-regularize=$l2
batchnorm-component name=xvector-norm
output-layer name=output dim=$(wc -l < $egs/speakers.txt) l2-regularize=$l2
XCONFIG
  run $net/log/xconfig.log xconfig-to-configs --xconfig-file $net/configs/network.xconfig --config-dir $net/configs
fi

if [ $stage -le 3 ]; then
  echo "$0: training"
  train-raw-dnn ${cmd:+--cmd="$cmd"} --use-gpu=no \
    --egs.dir=$egs --egs.frames-per-eg=1 --cleanup.remove-egs=false \
    --trainer.num-epochs=$num_epochs --trainer.srand=1 --trainer.max-param-change=2.0 \
    --trainer.optimization.num-jobs-initial=$num_jobs --trainer.optimization.num-jobs-final=$num_jobs \
    --trainer.optimization.initial-effective-lrate=$initial_lrate \
    --trainer.optimization.final-effective-lrate=$final_lrate \
    --trainer.optimization.minibatch-size=$minibatch_size --dir=$net ||
    fail "training failed (its logs: $net/log)"
  need $net/final.raw
fi

if [ $stage -le 4 ]; then
  echo "$0: embedding the utterances"
  echo "output-node name=output input=xvector" > $net/extract.config
  run $net/log/extract.log nnet3-copy --nnet-config=$net/extract.config --edits=remove-orphans $net/final.raw \
    $net/extract.raw
  for part in train test; do
    run $net/log/xvectors_$part.log nnet3-xvector-compute --min-chunk-size=$min_frames $net/extract.raw \
      ark:$data/$part/feats.ark ark,scp:$net/$part.ark,$net/$part.scp
    run $dir/mean/log/$part.log python local/mean_features.py ark:$data/$part/feats.ark ark:$dir/mean/$part.ark
  done
fi

if [ $stage -le 5 ]; then
  echo "$0: scoring"
  local/make_trials.sh $data/test/utt2spk > $dir/trials
  : > $dir/results.txt
  for vectors in mean xvector; do
    lda_dims=${vectors}_lda_dims
    run $dir/$vectors/log/score.log python local/score.py --lda-dims ${!lda_dims} --scores $dir/$vectors/scores.txt \
      ark:$dir/$vectors/train.ark $data/train/utt2spk ark:$dir/$vectors/test.ark $dir/trials > $dir/$vectors/eer.txt
    local/plda.sh --train ark:$dir/$vectors/train.ark --utt2spk $data/train/utt2spk --test ark:$dir/$vectors/test.ark \
      --trials $dir/trials --dir $dir/$vectors/plda --lda-dims ${!lda_dims} >> $dir/$vectors/eer.txt
    sed "s/^/$vectors /" $dir/$vectors/eer.txt >> $dir/results.txt
  done
  local/results.sh $dir/results.txt
fi
