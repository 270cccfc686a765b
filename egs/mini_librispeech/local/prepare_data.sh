#!/usr/bin/env bash
# Copies a Kaldi data directory, sorted and complete, perhaps at other speeds.
#
#   local/prepare_data.sh --from corpus/train --to exp/data/train
#   local/prepare_data.sh --from exp/data/train --to exp/data/train_sp --speeds "0.9 1.0 1.1"
#   local/prepare_data.sh --from exp/data/train --to exp/data/train_e2e --utt2speed speeds
#
# A line of --utt2speed reads COPY UTTERANCE SPEED; the copy of an utterance is named COPY-UTTERANCE, that of its speaker
# COPY-SPEAKER. --speeds makes the copies sp0.9, sp1.0, … of all utterances, with --copies N at N of these speeds only,
# another utterance at others. Sound stays as it is: what it is to become
# stands in utt2speed, which local/make_features.sh reads.

set -euo pipefail
. "$(dirname "$0")/../../utils/recipe.sh"

from=
to=
speeds=
copies=                   # blank: as many as there are speeds
utt2speed=
. "$(dirname "$0")/../../utils/parse_options.sh"

need $from/{text,utt2spk}
mkdir -p $to
for name in text utt2spk wav.scp feats.scp segments; do
  rm -f $to/$name
  [ ! -s $from/$name ] || sort -k1,1 -u $from/$name > $to/$name
done
[ -s $to/wav.scp ] || [ -s $to/feats.scp ] || fail "$from has neither wav.scp nor feats.scp"

if [ -n "$speeds" ]; then
  awk -v speeds="$speeds" -v copies="$copies" '{ n = split(speeds, speed, " "); if (!copies) copies = n
    for (i = 0; i < copies; i++) { s = speed[(NR + i) % n + 1]; print "sp" s, $1, s } }' $to/utt2spk > $to/copies
  utt2speed=$to/copies
fi
if [ -n "$utt2speed" ]; then
  rm -f $to/feats.scp
  need $utt2speed $to/wav.scp
  copy() {   # copy NAME: a line of the table for each copy, with its name in front
    awk -v name=$1 'NR == FNR { key = $1; $1 = ""; rest[key] = $0; next } $2 in rest {
      print $1 "-" $2 (name == "utt2spk" ? " " $1 "-" substr(rest[$2], 2) : rest[$2]) }' $to/$1 $utt2speed |
      sort -k1,1 > $to/$1.copies
    mv $to/$1.copies $to/$1
  }
  table=wav.scp                     # recordings of segments keep their names
  [ ! -s $to/segments ] || table=segments
  copy text
  copy $table
  copy utt2spk
  awk '{ print $1 "-" $2, $3 }' $utt2speed | sort -k1,1 > $to/utt2speed
fi
awk '{ if (!($2 in of)) order[++n] = $2; of[$2] = of[$2] " " $1 } END { for (i = 1; i <= n; i++) print order[i] of[order[i]] }' \
  $to/utt2spk | sort -k1,1 > $to/spk2utt
