#!/usr/bin/env bash
# The digits data as Kaldi lays data out: data directories, a lang directory, alignment directories.
#
#   local/make_kaldi_dirs.sh              everything, under exp/
#   local/make_kaldi_dirs.sh --dir /tmp/d --nj 2
#
# It makes, under --dir, and skips what is complete:
#   data/{train,test}    feats.scp utt2spk spk2utt text utt2num_frames cmvn.scp
#   lang                 phones.txt (numbered from 1, as Kaldi does) words.txt lexicon.txt phones/*.{txt,int,csl} topo
#   lang_chain           the same with the chain topology
#   ali_{train,test}     tree final.mdl ali.*.gz num_jobs phones.txt: one state a phone, so 28 pdfs
#   chain_tree           the same of the training data with the chain topology and a third of the frames

set -euo pipefail
cd "$(dirname "$0")/.."
. ./path.sh

data=data
dir=exp
nj=4
. ../utils/parse_options.sh

complete() { [ -e "$1/.complete" ]; }

log() {   # log FILE COMMAND…: the file keeps the command's messages; they are shown if it fails
  local file=$1; shift
  "$@" 2>"$file" || { echo "$0: failed: $*" >&2; tail -n 10 "$file" >&2; exit 1; }
}

for part in train test; do
  out=$dir/data/$part
  complete $out && continue
  echo "$0: making $out"
  mkdir -p $out/log $out/data
  for name in utt2spk text utt2num_frames; do sort -k1,1 $data/$part/$name > $out/$name; done
  awk '{ if (!($2 in of)) order[++n] = $2; of[$2] = of[$2] " " $1 } END { for (i = 1; i <= n; i++) print order[i] of[order[i]] }' \
    $out/utt2spk | sort -k1,1 > $out/spk2utt
  log $out/log/feats.log copy-feats ark:$data/$part/feats.ark ark,scp:$(realpath $out)/data/feats.ark,$out/feats.unsorted
  sort -k1,1 $out/feats.unsorted > $out/feats.scp
  rm $out/feats.unsorted
  log $out/log/cmvn.log compute-cmvn-stats --spk2utt=ark:$out/spk2utt scp:$out/feats.scp \
    ark,scp:$(realpath $out)/data/cmvn.ark,$out/cmvn.scp
  touch $out/.complete
done

topology() {   # topology PHONES STATE-0: an HMM of one state
  printf '<Topology>\n<TopologyEntry>\n<ForPhones>\n%s\n</ForPhones>\n' "$1"
  printf '<State> 0 %s <Transition> 0 0.5 <Transition> 1 0.5 </State>\n<State> 1 </State>\n' "$2"
  printf '</TopologyEntry>\n</Topology>\n'
}

lang=$dir/lang
if ! complete $lang; then
  echo "$0: making $lang"
  mkdir -p $lang/phones
  # The phones of the data are numbered from 0; in Kaldi 0 is the empty symbol.
  awk 'BEGIN { print "<eps> 0" } NF { print $1, $2 + 1 }' $data/phones.txt > $lang/phones.txt
  awk 'NF { print $2, $2 + 1 }' $data/phones.txt > $lang/phone_map
  cut -d' ' -f1 $data/lexicon.txt | sort -u | awk 'BEGIN { print "<eps> 0" } { print $1, NR }' > $lang/words.txt
  cp $data/lexicon.txt $lang/lexicon.txt
  for kind in silence nonsilence; do
    awk -v kind=$kind '$2 > 0 && ($1 == "SIL") == (kind == "silence") { print $1, $2 }' $lang/phones.txt > $lang/both
    cut -d' ' -f1 $lang/both > $lang/phones/$kind.txt
    cut -d' ' -f2 $lang/both > $lang/phones/$kind.int
    paste -sd: $lang/phones/$kind.int > $lang/phones/$kind.csl
  done
  rm $lang/both
  # For building trees: each phone is a set and a root of its own; silence, which has no context, is a question.
  cp $lang/phones/silence.csl $lang/phones/context_indep.csl
  awk '$2 > 0 { print $2 }' $lang/phones.txt > $lang/phones/sets.int
  sed 's/^/shared split /' $lang/phones/sets.int > $lang/phones/roots.int
  cat $lang/phones/silence.int > $lang/phones/extra_questions.int
  phones=$(awk '$2 > 0 { print $2 }' $lang/phones.txt | paste -sd' ')
  topology "$phones" '<PdfClass> 0' > $lang/topo
  topology "$phones" '<ForwardPdfClass> 0 <SelfLoopPdfClass> 1' > $lang/topo_chain
  touch $lang/.complete
fi
if ! complete ${lang}_chain; then
  mkdir -p ${lang}_chain
  cp -r $lang/phones $lang/*.txt ${lang}_chain/
  cp $lang/topo_chain ${lang}_chain/topo
  touch ${lang}_chain/.complete
fi

start_alignments() {   # start_alignments DIR TOPO: all but the alignments themselves
  local out=$1 topo=$2
  mkdir -p $out/log
  log $out/log/tree.log make-mono-tree $topo $out/tree $out/final.mdl
  cp $lang/phones.txt $out/phones.txt
  echo $nj > $out/num_jobs
}

for part in train test; do
  out=$dir/ali_$part
  complete $out && continue
  echo "$0: making $out"
  start_alignments $out $lang/topo
  for ((job = 1; job <= nj; job++)); do
    sort -k1,1 $data/$part/ali.txt | awk -v n=$nj -v j=$job -v total=$(wc -l < $data/$part/ali.txt) \
      'NR > int((j - 1) * total / n) && NR <= int(j * total / n)' > $out/part.$job
    log $out/log/ali.$job.log phones-to-ali --phone-map=$lang/phone_map $out/final.mdl $out/tree ark:$out/part.$job \
      "ark:| gzip -c > $out/ali.$job.gz"
    rm $out/part.$job
  done
  touch $out/.complete
done

out=$dir/chain_tree
if ! complete $out; then
  echo "$0: making $out"
  start_alignments $out $lang/topo_chain
  for ((job = 1; job <= nj; job++)); do
    log $out/log/ali.$job.log convert-ali --frame-subsampling-factor=3 $dir/ali_train/final.mdl $out/final.mdl $out/tree \
      "ark:gunzip -c $dir/ali_train/ali.$job.gz |" "ark:| gzip -c > $out/ali.$job.gz"
  done
  touch $out/.complete
fi
