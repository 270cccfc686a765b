#!/usr/bin/env bash
# Kaldi data directories of parts of LibriSpeech, or of mini LibriSpeech, as they are unpacked.
#
#   local/librispeech_data.sh --corpus …/LibriSpeech --parts "train-clean-5 dev-clean-2" --dir exp/corpus
#
# Makes --dir/train_clean_5 and so on; sound is unpacked by the program flac as it is read. A reader's chapter is a
# speaker, as in Kaldi's recipe.

set -euo pipefail
. "$(dirname "$0")/../../utils/recipe.sh"

corpus=
parts="train-clean-5 dev-clean-2"
dir=
. "$(dirname "$0")/../../utils/parse_options.sh"

type flac > /dev/null 2>&1 || fail "there is no program flac on the PATH (Debian: apt-get install flac)"
[ -d "$corpus" ] || fail "--corpus '$corpus' is not a folder; give the one in which train-clean-5 lies"
corpus=$(cd "$corpus" && pwd)
for part in $parts; do
  [ -d "$corpus/$part" ] || fail "$corpus has no $part"
  out=$dir/${part//-/_}
  mkdir -p $out
  find "$corpus/$part" -name '*.flac' | sort | awk '{ name = $0; sub(/.*\//, "", name); sub(/\.flac$/, "", name)
    print name " flac -c -d -s \x27" $0 "\x27 |" }' | sort -k1,1 > $out/wav.scp
  find "$corpus/$part" -name '*.trans.txt' -exec cat {} + | sort -k1,1 > $out/text
  need $out/{wav.scp,text}
  awk '{ split($1, part, "-"); print $1, part[1] "-" part[2] }' $out/wav.scp > $out/utt2spk
  [ "$(cut -d' ' -f1 $out/text | cksum)" = "$(cut -d' ' -f1 $out/wav.scp | cksum)" ] ||
    fail "sound and transcripts of $corpus/$part are of different utterances"
  echo "$0: $out: $(wc -l < $out/text) utterances"
done
