"""Lattices: determinisation, pruning, rescoring, alignment of words and phones, and minimum-risk words.

``determinize.py`` (``determinize_pruned(lattice, beam, options)``, ``determinize(lattice)``),
``phone_determinize.py`` (``determinize_phone_pruned(model, lattice, beam, options)``), ``minimize.py``
(``with_strings_pushed``, ``with_weights_pushed``, ``minimized``). Subsets of states, strings (``string_tree.py``) and
tasks are in arrays (``subset_layout.py``); a loop asks for room before it begins a task. ``states.py`` has what
all work on lattices needs, for both kinds: ``top_sorted``, ``trimmed``, ``arc_costs``, ``state_times``. The loops
over arcs are in ``path_loops.py``; ``best_path.py``, ``pruning.py``, ``forward_backward.py`` call them.
``scaling.py`` changes costs. ``mbr.py`` finds the words of least risk (its loops round as fused multiply-adds do,
since rounding decides ties). ``word_alignment.py``, ``phone_alignment.py`` and ``lexicon_alignment.py`` search over
pairs of a state and what has not been output yet; ``aligned_output.py`` collects the arcs and removes epsilons.
``composition.py``: ``Composer(fst, phi, rho).compose(lattice)``; ``lm_rescoring.py``: const-ARPA models, whose
histories are rows that a loop numbers; ``deterministic_lm.py`` and ``pruned_composition.py``: two models at a time,
the best paths first.
"""
