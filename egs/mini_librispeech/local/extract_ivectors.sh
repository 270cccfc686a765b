#!/usr/bin/env bash
# I-vectors of utterances, every ten frames, as a recognizer would know them by then. Kaldi:
# steps/online/nnet2/extract_ivectors_online.sh.
#
#   local/extract_ivectors.sh --data exp/data/test --extractor exp/extractor --dir exp/ivectors/test
#
# --utts-per-speaker 2 forgets the speaker after two utterances, so that training sees what beginnings are like.

set -euo pipefail
. "$(dirname "$0")/../../utils/recipe.sh"

data=
extractor=
dir=
utts_per_speaker=0
period=10
. "$(dirname "$0")/../../utils/parse_options.sh"

need $data/{feats.scp,spk2utt} $extractor/{final.ie,final.dubm,final.mat,global_cmvn.stats,splice_opts}
mkdir -p $dir
echo $period > $dir/ivector_period
awk -v most=$utts_per_speaker '{ line = $1 (most ? "-1" : ""); for (i = 2; i <= NF; i++) {
    if (most && i > 2 && (i - 2) % most == 0) { print line; line = $1 "-" (i - 2) / most + 1 }
    line = line " " $i }
  print line }' $data/spk2utt > $dir/spk2utt
tr ' ' '\n' < $extractor/splice_opts > $dir/splice.conf
cat > $dir/ivector_extractor.conf <<END
--cmvn-config=$extractor/online_cmvn.conf
--splice-config=$dir/splice.conf
--lda-matrix=$extractor/final.mat
--global-cmvn-stats=$extractor/global_cmvn.stats
--diag-ubm=$extractor/final.dubm
--ivector-extractor=$extractor/final.ie
--ivector-period=$period
--num-gselect=5
--min-post=0.025
--posterior-scale=0.1
END
out=$(cd $dir && pwd)
run $dir/log/extract.log ivector-extract-online2 --config=$dir/ivector_extractor.conf ark:$dir/spk2utt scp:$data/feats.scp \
  "ark:| copy-feats --compress=true ark:- ark,scp:$out/ivector_online.ark,$dir/ivector_online.scp"
