"""nnet3py train-rnnlm: text becomes an RNN language model for rescoring lattices."""
from __future__ import annotations

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import NUM_THREADS, QUIET
from nnet3py.cli.process.options import Options, declared
from nnet3py.rnnlm.training.options import SETTINGS, rnnlm_options


@kaldi_command("train-rnnlm", usage="""
Train an RNN language model on text, in the form of Kaldi's: a network between embeddings of words, which are sums of
the vectors of features such as pieces of their spelling. The folder that it writes is for Kaldi's scripts
rnnlm/lmrescore_pruned.sh and the like, and for lattice-lmrescore-kaldi-rnnlm-pruned.

Texts have one sentence a line. An ARPA file among them is no text: its perplexity is shown for comparison, and where
there are so many words that outputs are compared with a sample of them only, it says which words are likely.

After each epoch the perplexity of the held-out text is shown, of probabilities that sum to one; the model with the
lowest one is final.raw and feat_embedding.final.mat. The other files are word_feats.txt, special_symbol_opts.txt (and
.conf), words.txt, and what they were made from in config/.

A training that was interrupted goes on after its last epoch when the command is given again.

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
    """Train, and print the result in a line."""
    wanted = rnnlm_options(options.as_dict())
    wanted.check()
    if options.num_threads:
        from nnet3py.engine.threads import set_num_threads

        set_num_threads(options.num_threads)
    from nnet3py.io.streams import write_text
    from nnet3py.rnnlm.training.run import train_on

    write_text("-", f"{options.dir}: {train_on(args, wanted).summary()}\n")
    return 0
