# Sourced by the scripts that rescore lattices, with their arguments: what they check, and the names that they use.
[ $# -eq 5 ] || fail "expected OLD-LANG RNNLM DATA DECODED OUT; see --help"
lang=$1 rnnlm=$2 decoded=$4 out=$5

need "$rnnlm/final.raw" "$rnnlm/special_symbol_opts.txt" "$decoded/num_jobs" "$decoded/lat.1.gz" "$lang/words.txt"
nj=$(cat "$decoded/num_jobs")
symbols=$(cat "$rnnlm/special_symbol_opts.txt")
if [ -s "$rnnlm/word_embedding.final.mat" ]; then
  embedding=$rnnlm/word_embedding.final.mat
else
  need "$rnnlm/word_feats.txt" "$rnnlm/feat_embedding.final.mat"
  embedding="rnnlm-get-word-embedding $rnnlm/word_feats.txt $rnnlm/feat_embedding.final.mat - |"
fi

# The numbers of words must be the same in both; the language model may have more, such as <brk>.
for words in "$rnnlm/config/words.txt" "$rnnlm/words.txt"; do
  [ ! -s "$words" ] || awk -v name="$words" '
    NR == FNR { number[$1] = $2; next }
    !($1 in number) || number[$1] != $2 { print name " does not have the word " $1 " with number " $2; exit 1 }' \
    "$words" "$lang/words.txt" >&2 || fail "the language model was made for other words than $lang"
done

# How the old model is subtracted: remove_old FACTOR LATTICES prints an rspecifier.
if [ -s "$lang/G.carpa" ]; then
  remove_old() { echo "ark:lattice-lmrescore-const-arpa --lm-scale=-$1 '$2' $lang/G.carpa ark:- |"; }
else
  need "$lang/G.fst"
  remove_old() {
    echo "ark:lattice-lmrescore --lm-scale=-$1 '$2' 'fstproject --project_output=true $lang/G.fst |' ark:- |"
  }
fi

mkdir -p "$out/log"
cp "$decoded/num_jobs" "$out/num_jobs"
