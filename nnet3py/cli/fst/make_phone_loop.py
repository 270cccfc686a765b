"""make-phone-loop: a decoding graph of phones, from a model alone."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option


@kaldi_command("make-phone-loop", usage="""
Make a decoding graph HCLG.fst from transition-ids to phones, and words.txt with their names and
phones/word_boundary.int beside it, for recognition of phones without words: what decodes with a graph folder, or with
HCLG.fst, takes it, and finds phones for words.

Any phone may follow any other, all equally probable. Without --tree, a phone has the pdfs of any context; phones that
have the same pdfs count as one. With --tree pdfs are those of the phones beside it, and with --phone-lm, such as the
phone_lm.fst of chain training, phones follow each other as in training.

Usage: make-phone-loop [options] <model> <graph-dir>
e.g.:
 make-phone-loop --phones=exp/chain/phones.txt exp/chain/final.mdl exp/chain/graph_phones
 make-phone-loop --phones=lang/phones.txt --tree=exp/chain/tree --phone-lm=exp/chain/phone_lm.fst exp/chain/final.mdl \\
    exp/chain/graph_phones
See also: nnet3-transcribe --graph, nnet3-latgen-faster, make-graph
""", arguments=(2, 2), options=[
    option("phones", str, "", "phones.txt of the model; empty: phones are called by their numbers. Marks of places in "
           "words (_B, _I, _E, _S) are left out"),
    option("tree", str, "", "Tree of the model; empty: pdfs of any context"),
    option("phone-lm", str, "", "Acceptor of the model's phones (FST); empty: any sequence; needs --tree"),
    option("insertion-penalty", float, 0.0, "Cost added for each phone; negative: more phones, shorter ones"),
    option("self-loop-scale", float, 1.0, "Factor of the costs of self-loops; 1.0 for chain models, 0.1 for others"),
])
def make_phone_loop(args: list[str], options: Options) -> int:
    """Make a graph of phones."""
    import os

    from nnet3py.decoding.phone_loop import phone_loop
    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.errors import Nnet3Error
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import write_text
    from nnet3py.transducers.fst_text import read_fst_file, write_fst_file

    model_file, folder = args
    model = read_transition_model(model_file)
    loop = phone_loop(
        model, SymbolTable.read(options.phones, "phone").names if options.phones else None,
        insertion_penalty=options.insertion_penalty, self_loop_scale=options.self_loop_scale,
        tree=read_object(options.tree, ContextDependency.read) if options.tree else None,
        phone_lm=read_fst_file(options.phone_lm) if options.phone_lm else None)
    try:
        os.makedirs(os.path.join(folder, "phones"), exist_ok=True)
    except OSError as error:
        raise Nnet3Error(f"the folder {folder} cannot be made: {error.strerror}") from None
    loop.phones.write(os.path.join(folder, "words.txt"))
    write_text(os.path.join(folder, "phones", "word_boundary.int"),
               "".join(f"{phone} singleton\n" for phone in model.topology.phones))     # each phone is a word
    write_fst_file(os.path.join(folder, "HCLG.fst"), loop.graph)
    log.log(f"Wrote {folder}/HCLG.fst, of {loop.graph.num_states} states and {loop.graph.num_arcs} arcs, with "
            f"{len(loop.phones) - 1} phones")
    return 0
