"""Phones' models: topologies, transition models, decision trees, and the alignments that refer to them.

``transition_model.py``, ``topology.py``: arrays index by transition-id. ``tree.py``: decision trees, and the
transition model that a tree and a topology make. ``align_phones.py``: ``PhoneAligner(model, tree).align(phones,
lengths)`` and ``.convert(old_model, ids, factor)`` make alignments. ``alignment.py``: ``phone_starts(model, ids)``,
``check_transition_ids(model, ids)``, ``describe_transitions(model, names, counts)``.
"""
