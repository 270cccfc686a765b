"""The usual topologies, made from lists of phones. Kaldi: the scripts gen_topo.pl, and that of chain models."""
from __future__ import annotations

from collections.abc import Sequence

from nnet3py.errors import UsageError
from nnet3py.hmm.topology import HmmState, HmmTopology

_STAY, _LEAVE = 0.75, 0.25          # of a state that leads to itself and to the next
_CHAIN = 0.5


def chain_topology(phones: Sequence[int]) -> HmmTopology:
    """One state per phone, with a pdf for the phone's first frame and one for all others. UsageError for bad phones."""
    states = [HmmState(0, 1, [(0, _CHAIN), (1, _CHAIN)]), HmmState()]
    return _topology([(list(phones), states)])


def left_to_right_topology(nonsilence: Sequence[int], silence: Sequence[int], num_states: int = 3,
                           num_silence_states: int = 5) -> HmmTopology:
    """``num_states`` states per phone, one after the other; those of silence between its first and last in any order.

    UsageError for phones of 0 or less, phones given twice, and fewer than one state.
    """
    if min(num_states, num_silence_states) < 1:
        raise UsageError(f"expected 1 state or more a phone, found {num_states} and {num_silence_states}")
    return _topology([(list(nonsilence), _in_a_row(num_states)), (list(silence), _silence(num_silence_states))])


def _in_a_row(count: int) -> list[HmmState]:
    return [*(HmmState(n, n, [(n, _STAY), (n + 1, _LEAVE)]) for n in range(count)), HmmState()]


def _silence(count: int) -> list[HmmState]:
    if count == 1:
        return _in_a_row(1)
    last, share = count - 1, 1.0 / (count - 1)
    inner = [HmmState(n, n, [(target, share) for target in range(1, count)]) for n in range(1, last)]
    return [HmmState(0, 0, [(target, share) for target in range(last)]), *inner,
            HmmState(last, last, [(last, _STAY), (count, _LEAVE)]), HmmState()]


def _topology(groups: list[tuple[list[int], list[HmmState]]]) -> HmmTopology:
    phones = [phone for group, _ in groups for phone in group]
    if not phones or min(phones) < 1:
        raise UsageError(f"expected phones, which are above 0, found {min(phones) if phones else 'none'}")
    if len(set(phones)) != len(phones):
        raise UsageError(f"phone {next(phone for phone in phones if phones.count(phone) > 1)} is given twice")
    used = [(group, states) for group, states in groups if group]
    topology = HmmTopology([states for _, states in used],
                           {phone: number for number, (group, _) in enumerate(used) for phone in group})
    topology.check()
    return topology
