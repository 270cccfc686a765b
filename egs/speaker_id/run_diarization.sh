#!/usr/bin/env bash
# Who spoke when: a speaker model, from sound to a folder, and how well it tells apart four voices of a conversation.
#
#   ./run_diarization.sh                 everything
#   ./run_diarization.sh --stage 3       from training on
#
# Speech and conversations are made with espeak-ng; voices of conversations are not among those that are learned. What it
# makes lies under exp/diarization/: corpus, features, examples, the network, speaker_model/ (a folder as published for
# vosk, with PLDA) and results.txt.

set -euo pipefail
cd "$(dirname "$0")"
. ../utils/recipe.sh

stage=0
dir=exp/diarization
utts_per_voice=8
num_conversations=10
seconds=120
tdnn_dim=128
dropout=0.1
embedding_dim=64
lda_dim=32
num_archives=8
pieces_per_speaker=30     # in each archive
min_frames=80
max_frames=160
num_epochs=2
num_jobs=2
initial_lrate=0.001
final_lrate=0.0001
minibatch_size=64
. ../utils/parse_options.sh

corpus=$dir/corpus
egs=$dir/egs
net=$dir/xvector
model=$dir/speaker_model

if [ $stage -le 0 ]; then
  echo "$0: making speech and conversations"
  rm -rf $corpus
  python local/make_conversations.py --out $corpus --utts-per-voice $utts_per_voice \
    --num-conversations $num_conversations --seconds $seconds
fi

if [ $stage -le 1 ]; then
  echo "$0: features and examples"
  need $corpus/train/{wav.scp,utt2spk}
  mkdir -p $model
  printf -- '--sample-frequency=16000\n--num-mel-bins=30\n--num-ceps=30\n--low-freq=20\n--high-freq=7600\n' \
    > $model/mfcc.conf
  feats=$corpus/train/feats.ark
  run $dir/log/mfcc.log compute-mfcc-feats --config=$model/mfcc.conf --dither=0 scp:$corpus/train/wav.scp ark:- |
    run $dir/log/cmn.log apply-cmvn-sliding --cmn-window=300 --center=true --norm-vars=false ark:- ark:$feats
  run $dir/log/frames.log feat-to-len ark:$feats ark,t:$corpus/train/utt2num_frames
  rm -rf $egs
  python local/make_ranges.py --num-archives $num_archives --pieces-per-speaker $pieces_per_speaker \
    --min-frames $min_frames --max-frames $max_frames $corpus/train/utt2spk $corpus/train/utt2num_frames $egs
  num_speakers=$(wc -l < $egs/speakers.txt)
  outputs=()
  for ((i = 1; i <= num_archives; i++)); do outputs+=("ark:| nnet3-shuffle-egs --srand=$i ark:- ark:$egs/egs.$i.ark"); done
  run $egs/log/get_egs.log nnet3-xvector-get-egs --num-pdfs=$num_speakers $egs/ranges ark:$feats \
    "${outputs[@]}" ark:$egs/train_diagnostic.egs ark:$egs/valid_diagnostic.egs
  cat $egs/train_diagnostic.egs $egs/valid_diagnostic.egs > $egs/combine.egs
  mkdir -p $egs/info
  feat-to-dim --print-args=false ark:$feats $egs/info/feat_dim
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
  cat > $net/configs/network.xconfig <<XCONFIG
input dim=$(cat $egs/info/feat_dim) name=input
batchnorm-component name=norm input=input
relu-batchnorm-dropout-layer name=tdnn1 dim=$tdnn_dim input=Append(-2,-1,0,1,2) dropout-proportion=$dropout dropout-per-dim=true
relu-batchnorm-dropout-layer name=tdnn2 dim=$tdnn_dim input=Append(-2,0,2) dropout-proportion=$dropout dropout-per-dim=true
relu-batchnorm-dropout-layer name=tdnn3 dim=$tdnn_dim input=Append(-3,0,3) dropout-proportion=$dropout dropout-per-dim=true
relu-batchnorm-dropout-layer name=tdnn4 dim=$((2 * tdnn_dim)) dropout-proportion=$dropout dropout-per-dim=true
stats-layer name=stats config=mean+stddev(0:1:1:10000)
batchnorm-component name=stats-norm input=stats
affine-layer name=xvector dim=$embedding_dim
batchnorm-component name=xvector-norm
output-layer name=output dim=$(wc -l < $egs/speakers.txt)
XCONFIG
  run $net/log/xconfig.log xconfig-to-configs --xconfig-file $net/configs/network.xconfig --config-dir $net/configs
fi

if [ $stage -le 3 ]; then
  echo "$0: training"
  train-raw-dnn --use-gpu=no --egs.dir=$egs --egs.frames-per-eg=1 --cleanup.remove-egs=false \
    --trainer.num-epochs=$num_epochs --trainer.srand=1 --trainer.max-param-change=2.0 \
    --trainer.optimization.num-jobs-initial=$num_jobs --trainer.optimization.num-jobs-final=$num_jobs \
    --trainer.optimization.initial-effective-lrate=$initial_lrate \
    --trainer.optimization.final-effective-lrate=$final_lrate \
    --trainer.optimization.minibatch-size=$minibatch_size --dir=$net ||
    fail "training failed (its logs: $net/log)"
fi

if [ $stage -le 4 ]; then
  echo "$0: the folder of the speaker model"
  need $net/final.raw
  echo "output-node name=output input=xvector" > $net/extract.config
  run $net/log/extract.log nnet3-copy --nnet-config=$net/extract.config --edits=remove-orphans $net/final.raw \
    $model/final.ext.raw
  # vectors of pieces as long as those that diarize compares
  awk '{ for (i = 0; 150 * i + 150 <= $2; i++)
           printf "%s-%02d %s %.2f %.2f\n", $1, i, $1, 1.5 * i, 1.5 * i + 1.5 }' $corpus/train/utt2num_frames > $net/pieces
  run $net/log/pieces.log extract-feature-segments ark:$corpus/train/feats.ark $net/pieces ark:- |
    run $net/log/xvectors.log nnet3-xvector-compute --min-chunk-size=$min_frames $model/final.ext.raw ark:- \
      ark:$net/pieces.ark
  awk 'NR == FNR { of[$1] = $2; next } { print $1, of[$2] }' $corpus/train/utt2spk $net/pieces > $net/utt2spk
  python local/make_speaker_model.py --lda-dim $lda_dim ark:$net/pieces.ark $net/utt2spk $model
  awk '{ of[$2] = of[$2] " " $1 } END { for (speaker in of) print speaker of[speaker] }' $net/utt2spk |
    sort -k1,1 > $net/spk2utt
  whitened="ark:ivector-subtract-global-mean $model/mean.vec ark:$net/pieces.ark ark:- | transform-vec $model/transform.mat"
  run $net/log/plda.log ivector-compute-plda ark:$net/spk2utt \
    "$whitened ark:- ark:- | ivector-normalize-length ark:- ark:- |" $model/plda
fi

if [ $stage -le 5 ]; then
  echo "$0: who spoke when"
  talks=$corpus/conversations
  rm -rf $dir/cosine && mkdir -p $dir/cosine
  for name in mfcc.conf final.ext.raw mean.vec transform.mat; do cp $model/$name $dir/cosine; done
  : > $dir/results.txt
  for way in cosine plda; do
    folder=$model; [ $way = plda ] || folder=$dir/cosine
    for count in 0 4; do
      printf '%s %s ' $way $count >> $dir/results.txt
      run $dir/log/diarize-$way-$count.log nnet3py diarize --model=$folder --num-speakers=$count \
        --reference=$talks/reference.rttm --out=$dir/turns-$way-$count $talks >> $dir/results.txt
    done
  done
  cat $dir/results.txt
fi
