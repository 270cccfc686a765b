#!/usr/bin/env bash
# The recipe of run.sh on mini LibriSpeech, for who has it: nothing is downloaded.
#
#   ./run_librispeech.sh --corpus …/LibriSpeech --lm-dir …/lm
#
# --corpus (or LIBRISPEECH) is the folder in which train-clean-5 and dev-clean-2 lie, --lm-dir (or LIBRISPEECH_LM) the one
# with librispeech-lexicon.txt, 3-gram.pruned.3e-7.arpa.gz (decoding) and 3-gram.arpa.gz or 4-gram.arpa.gz (rescoring).
# Sizes are those of Kaldi's recipe; options of run.sh that differ for that stand at the end and can be given here, too.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../utils/recipe.sh"

stage=-1
stop_stage=100
corpus=${LIBRISPEECH-}
lm_dir=${LIBRISPEECH_LM-}
train=train-clean-5
test=dev-clean-2
lm=3-gram.pruned.3e-7.arpa.gz
large_lm=3-gram.arpa.gz
dir=exp/librispeech
e2e_epochs=10
num_epochs=20
num_jobs_initial=2
num_jobs_final=5
use_gpu=optional
cmd=
. "$here/../utils/parse_options.sh"
export NNET3PY_PYTHON=$python

[ -n "$corpus" ] && [ -n "$lm_dir" ] || fail "--corpus and --lm-dir are needed; see $0 --help"
need $lm_dir/{librispeech-lexicon.txt,$lm,$large_lm}
data=$dir/corpus
if [ $stage -le -1 ]; then
  "$here/local/librispeech_data.sh" --corpus "$corpus" --parts "$train $test" --dir $data
  # The lexicon separates words and phones by tabs, and has some words more than once with stress marks only.
  { echo "<UNK> SPN"; awk '{ $1 = $1; print }' $lm_dir/librispeech-lexicon.txt; } | sort -u > $data/lexicon.txt
fi
"$here/run.sh" --stage $stage --stop-stage $stop_stage --dir $dir --data $data/${train//-/_} --test-data $data/${test//-/_} \
  --lexicon $data/lexicon.txt --silence-phones SIL,SPN --unknown-word '<UNK>' --lm $lm_dir/$lm --large-lm $lm_dir/$large_lm \
  --e2e-width 512 --e2e-bottleneck 96 --e2e-strides "1 1 0 3 3 3 3" --e2e-epochs $e2e_epochs \
  --num-epochs $num_epochs --num-jobs-initial $num_jobs_initial --num-jobs-final $num_jobs_final --use-gpu $use_gpu --cmd "$cmd"
