"""Commands on tables of lattices, with the names and log lines of Kaldi's latbin/, and those on RNN language models.

``changes.py``: copying, scaling, pruning, projecting; ``determinize.py``: also pushing and minimizing; ``combine.py``:
with other lattices, FSTs or language models; ``paths.py``: best paths, n-best lists, oracle errors; ``times.py``:
alignment with words and phones, posteriors, confidences, CTMs; ``rnnlm.py``. A command reads its options, converts a
table, and logs counts as Kaldi does. Important names, all in ``tables.py``: ``change_lattices(args, change)``,
``scales_of(options)``, and ``per(total, count)``, the division in Kaldi's log lines.

The algorithms are in ``nnet3py.lattices`` and ``nnet3py.rnnlm``; they and numpy are imported inside the commands. No
library has these programs: OpenFst and k2 do not read Kaldi's lattices.
"""
