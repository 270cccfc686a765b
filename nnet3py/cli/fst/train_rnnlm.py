"""nnet3py train-rnnlm: training of an RNN language model on text.

In a file of its own, since the declarations of its options import other modules.
"""
from __future__ import annotations

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import NUM_THREADS, QUIET
from nnet3py.cli.process.options import Options, declared
from nnet3py.rnnlm.training.options import SETTINGS, rnnlm_options


@kaldi_command("train-rnnlm", "Language models",
               "Train an RNN language model on text, to rescore lattices.", launcher=False, usage="""
Train an RNN language model on text, for rescoring lattices: a TDNN-LSTM whose word embeddings are sums of embeddings of
features such as letter n-grams. The output folder has the layout of Kaldi's, for lattice-lmrescore-kaldi-rnnlm-pruned,
for Kaldi's scripts such as rnnlm/lmrescore_pruned.sh, and as rnnlm/ of a recognizer's model folder.

Texts have one sentence on each line. With an n-gram model, an ARPA file, its perplexity is logged for comparison; with
large vocabularies, where training samples words, they are sampled from it.

After each epoch the perplexity of the held-out text is logged; final.raw and feat_embedding.final.mat are the model
with the lowest one. The other files are word_feats.txt, special_symbol_opts.txt (and .conf) and words.txt, with their
sources in config/.

Run the same command again to continue an interrupted training after its last epoch.

Usage:  nnet3py train-rnnlm [options] <plain-text> ... [<arpa>] --dir=<folder>

e.g.:
 nnet3py train-rnnlm --words=data/lang/words.txt --held-out=dev.txt train.txt --dir=exp/rnnlm
 nnet3py train-rnnlm news.txt books.txt 4gram.arpa --max-words=100000 --embedding-dim=512 --num-lstm-layers=2 \\
   --minibatch-words=2048 --dir=exp/rnnlm_large
See also: lattice-lmrescore-kaldi-rnnlm-pruned, rnnlm-sentence-probs
""", arguments=(1, None), detached_values=True, options_anywhere=True, options=[
    QUIET, NUM_THREADS, *declared(SETTINGS),
])
def train_rnnlm(args: list[str], options: Options) -> int:
    training_options = rnnlm_options(options.as_dict())
    if options.num_threads:
        from nnet3py.engine.threads import set_num_threads

        set_num_threads(options.num_threads)
    from nnet3py.io.streams import write_text
    from nnet3py.rnnlm.training.run import train_on

    write_text("-", f"{options.dir}: {train_on(args, training_options).summary()}\n")
    return 0
