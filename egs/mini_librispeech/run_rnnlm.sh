#!/usr/bin/env bash
# An RNN language model of the text of run_synthetic.sh, and the lattices of that recipe rescored with it: perplexity and
# word error rates before and after.
#
#   ./run_synthetic.sh && ./run_rnnlm.sh
#   ./run_rnnlm.sh --dir exp --corpus … --text … --large-lm … --tests "dev test"       of another run.sh
#
# The model is trained on the text that the 4-gram was estimated from. It rescores the lattices of the 3-gram that decoded:
# --weight of the costs of that are replaced. Last, a model folder is made that rescores with the 4-gram and the RNN, as vosk does;
# --vosk true recognizes with vosk, too (pip install vosk). Further options stand below.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../utils/recipe.sh"

stage=0
stop_stage=100
dir=exp/synthetic         # of run.sh
corpus=                   # data directories of the tests, for their texts; blank: DIR/corpus
text=                     # to train on; blank: CORPUS/lm.txt
large_lm=                 # to compare with; blank: CORPUS/large.arpa
tests="dev test"          # the first one chooses the epoch, the weight of the language model and the word penalty
num_epochs=4
embedding_dim=128
num_lstm_layers=1
seed=0
train_opts=               # further options of train-rnnlm
weight=0.8                # how much of the 3-gram's costs is replaced
max_ngram_order=4         # histories with the same last three words are taken for one
score_weights="3 5 7 9 11 13"
score_penalties="0.0 0.5"
vosk=false
. "$here/../utils/parse_options.sh"
export NNET3PY_PYTHON=$python

corpus=${corpus:-$dir/corpus}
text=${text:-$corpus/lm.txt}
large_lm=${large_lm:-$corpus/large.arpa}
local=$here/local
lang=$dir/lang
chain=$dir/chain
rnnlm=$dir/rnnlm
first=${tests%% *}
need $text $large_lm $lang/{words.txt,G.fst} $chain/graph/words.txt
start=$SECONDS

begin() {   # begin STAGE WHAT: whether the stage is to be done
  [ $stage -le $1 ] && [ $1 -le $stop_stage ] || return 1
  echo "$0: stage $1 ($((SECONDS - start)) s): $2"
}

sentences() {   # sentences NAME: the text of a test directory, without the names of utterances
  cut -d' ' -f2- $corpus/$1/text
}

if begin 0 "training"; then
  mkdir -p $rnnlm
  sentences $first > $rnnlm/held_out.txt
  run $rnnlm/log/train.log nnet3py train-rnnlm --words=$lang/words.txt --held-out=$rnnlm/held_out.txt $text $large_lm \
    --dir=$rnnlm --num-epochs=$num_epochs --embedding-dim=$embedding_dim --num-lstm-layers=$num_lstm_layers --seed=$seed \
    $train_opts
fi

if begin 1 "perplexity"; then
  for name in $tests; do
    sentences $name > $rnnlm/$name.txt
    python $local/perplexity.py $rnnlm $large_lm $rnnlm/$name.txt
  done | tee $rnnlm/perplexity.txt
fi

if begin 2 "rescoring"; then
  for name in $tests; do
    echo 1 > $chain/decode_$name/num_jobs
    # The lattices' acoustic costs are ten times as large as those that were decoded with.
    $here/../rnnlm/lmrescore_pruned.sh --acwt 0.1 --weight $weight --max-ngram-order $max_ngram_order $lang $rnnlm \
      $dir/data/$name $chain/decode_$name $chain/decode_${name}_rnnlm
  done
fi

if begin 3 "scoring"; then
  for name in $tests; do
    like=
    [ $name = $first ] || like=$chain/decode_${first}_rnnlm
    $local/score.sh --data $dir/data/$name --words $chain/graph/words.txt --dir $chain/decode_${name}_rnnlm --like "$like" \
      --weights "$score_weights" --penalties "$score_penalties"
    for kind in "" _large _rnnlm; do
      [ ! -s $chain/decode_$name$kind/wer ] ||
        echo "$name$kind: $(grep -h '^%WER\|weight' $chain/decode_$name$kind/wer | paste -sd' ')"
    done
  done | tee $rnnlm/results.txt
fi

if begin 4 "model folder"; then
  package="$here/../english_digits_and_commands/local"
  $package/make_package.sh --model $chain --graph $chain/graph --lang $lang --extractor $dir/extractor --conf $here/conf \
    --rescore $lang --rnnlm $rnnlm --dir $dir/model
  for name in $tests; do
    echo "$name:"
    python $package/test_model.py --vosk $vosk $dir/model $corpus/$name
  done | tee $rnnlm/model_folder.txt
fi
