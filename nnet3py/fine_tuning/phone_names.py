"""The names of a model's phones: those of its folder where these can be its own, or else numbers."""
from __future__ import annotations

from collections.abc import Mapping

from nnet3py.decoding.lang_folder import POSITIONS
from nnet3py.decoding.symbols import EPSILON, SymbolTable
from nnet3py.hmm.transition_model import TransitionModel

_MARK_OF_KIND = {kind: mark for mark, kind in POSITIONS.items()}


def phone_names(path: str, model: TransitionModel, kinds: Mapping[int, str] | None) -> tuple[SymbolTable, str]:
    """The names of phones, and what is to be said of them, or nothing.

    Phones that the table in ``path`` does not name, or all if there is none, are named by number: ``p11_B`` is the
    phone 11, at the beginning of a word by its kind, ``p11_E`` the same phone at the end. So are all if the table is
    another model's: it calls a phone of the model a disambiguation symbol, or has another position in the word for it.
    """
    by_number = _by_number(model, kinds)
    if not path:
        return SymbolTable({0: EPSILON, **by_number}, "phone"), ""
    table = SymbolTable.read(path, "phone")
    wrong = [phone for phone in model.topology.phones if phone in table.names and (
        table.names[phone].startswith("#") or _contradicts(table.names[phone], (kinds or {}).get(phone, "")))]
    if wrong:
        kind = "a disambiguation symbol" if table.names[wrong[0]].startswith("#") else "at another place in words"
        return SymbolTable({0: EPSILON, **by_number}, "phone", path), (
            f"phones.txt is another model's: by it, phone {wrong[0]} ({table.names[wrong[0]]}) is {kind}; so phones "
            f"are named by number, such as {by_number[wrong[0]]}")
    unnamed = [phone for phone in model.topology.phones if phone not in table.names]
    note = f"phones.txt does not name {len(unnamed)} phones, which go by number, such as {by_number[unnamed[0]]}" if (
        unnamed) else ""
    return SymbolTable({**table.names, **{phone: by_number[phone] for phone in unnamed}}, "phone", path), note


def _contradicts(name: str, kind: str) -> bool:
    """Whether a name's mark says another position than the kind of the phone."""
    return kind in _MARK_OF_KIND and name[-2:] in POSITIONS and POSITIONS[name[-2:]] != kind


def _by_number(model: TransitionModel, kinds: Mapping[int, str] | None) -> dict[int, str]:
    """``p`` and a number: that of the first of phones that follow each other and differ in their kind only."""
    names: dict[int, str] = {}
    first, used = 0, set[str]()
    for phone in sorted(model.topology.phones):
        kind = (kinds or {}).get(phone, "")
        if kind not in _MARK_OF_KIND or not used or kind in used:
            first, used = phone, set()
        if kind in _MARK_OF_KIND:
            used.add(kind)
        names[phone] = f"p{first}{_MARK_OF_KIND.get(kind, '')}"
    return names
