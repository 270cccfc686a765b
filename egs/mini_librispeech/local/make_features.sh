#!/usr/bin/env bash
# MFCC of a data directory, with --pitch-config and pitch after them, of its sound at the speeds in utt2speed if that is there, with random volumes then; and
# normalization statistics. A directory that has feats.scp and no wav.scp gets the statistics only.
#
#   local/make_features.sh --data exp/data/train_sp --config conf/mfcc.conf
#   local/make_features.sh --data exp/data/train_sp --config conf/mfcc.conf --pitch-config conf/online_pitch.conf

set -euo pipefail
. "$(dirname "$0")/../../utils/recipe.sh"

data=
config=
pitch_config=             # of compute-and-process-kaldi-pitch-feats; blank: no pitch
. "$(dirname "$0")/../../utils/parse_options.sh"

need $data/{utt2spk,spk2utt}
out=$(cd $data && pwd)/features
mkdir -p $out
rm -f $data/pitch_dim
if [ -s $data/wav.scp ]; then
  need $config
  sound=scp:$data/wav.scp
  [ ! -s $data/segments ] || sound="ark:extract-segments $sound $data/segments ark:- |"
  # Speeds near 1 are exact for what is 1; volumes from an eighth to twice, as in Kaldi's recipes.
  [ ! -s $data/utt2speed ] ||
    sound="ark:wav-perturb --utt2speed=ark,t:$data/utt2speed --min-volume=0.125 --max-volume=2 '$sound' ark:- |"
  keep="ark:| copy-feats --compress=true --write-num-frames=ark,t:$data/utt2num_frames ark:- ark,scp:$out/mfcc.ark,$data/feats.scp"
  if [ -z "$pitch_config" ]; then
    run $data/log/mfcc.log compute-mfcc-feats --config=$config --allow-downsample=true "$sound" "$keep"
  else
    need $pitch_config
    run $data/log/pitch.log compute-and-process-kaldi-pitch-feats --config=$pitch_config "$sound" ark:$out/pitch.ark
    run $data/log/mfcc.log compute-mfcc-feats --config=$config "$sound" "ark:| paste-feats --length-tolerance=2 \
      ark:- ark:$out/pitch.ark '$keep'"
    feat-to-dim --print-args=false ark:$out/pitch.ark $data/pitch_dim
    rm $out/pitch.ark
  fi
else
  run $data/log/lengths.log feat-to-len scp:$data/feats.scp ark,t:$data/utt2num_frames
fi
[ "$(wc -l < $data/feats.scp)" = "$(wc -l < $data/utt2spk)" ] ||
  echo "$0: $data: features of $(wc -l < $data/feats.scp) of $(wc -l < $data/utt2spk) utterances" >&2
run $data/log/cmvn.log compute-cmvn-stats --spk2utt=ark:$data/spk2utt scp:$data/feats.scp \
  ark,scp:$out/cmvn.ark,$data/cmvn.scp
