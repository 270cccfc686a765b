"""make-topology: a topology from lists of phones."""
from __future__ import annotations

from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError


@kaldi_command("make-topology", group="Trees and topologies", help="Make the HMM topology from lists of phones.",
               usage="""
Make the topology of the HMMs of phones, in text. Phones are numbers with colons between them; the list of silence
phones may be empty. For chain models all phones are alike; for others silence has a topology of its own.
Kaldi has scripts named gen_topo for this.

Usage: make-topology [options] <nonsilence-phones> <silence-phones> <topology-out>
e.g.: make-topology 2:3:4:5 1 topo
 make-topology --chain=false --num-nonsil-states=3 --num-sil-states=5 2:3:4:5 1 topo
See also: make-mono-tree
""", arguments=(3, 3), options=[
    option("chain", bool, True, "One state a phone, with two pdfs"),
    option("num-nonsil-states", int, 3, "States of a phone that is not silence; with --chain=false"),
    option("num-sil-states", int, 5, "States of a silence phone; with --chain=false"),
    option("binary", bool, False, "Write output in binary mode"),
])
def make_topology(args: list[str], options: Options) -> int:
    """Write a topology."""
    from nnet3py.hmm.topology import chain_topology, left_to_right_topology
    from nnet3py.io.object_files import write_object

    nonsilence, silence = (_phones(text) for text in args[:2])
    if options.chain:
        topology = chain_topology(sorted([*nonsilence, *silence]))
    else:
        topology = left_to_right_topology(nonsilence, silence, options.num_nonsil_states, options.num_sil_states)
    write_object(args[2], topology.write, options.binary)
    return 0


def _phones(text: str) -> list[int]:
    words = [word for word in text.replace(":", " ").split() if word]
    wrong = [word for word in words if not (word.isascii() and word.isdigit() and len(word) < 10)]
    if wrong:
        raise UsageError(f"expected phones as numbers with colons between them, found '{wrong[0]}'")
    return [int(word) for word in words]
