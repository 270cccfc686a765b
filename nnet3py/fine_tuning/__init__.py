"""Fine-tuning: a model folder for recognition and some transcribed speech become a new model folder.

The three most important names: :func:`~nnet3py.fine_tuning.fine_tuning.fine_tune` (the driver, in ``fine_tuning.py``),
``FineTuneOptions`` and ``WorkFolder``, the paths of all files (``plan.py``, without numpy). ``FineTuning`` is a
:class:`~nnet3py.drivers.staged.StagedWork` in the folder ``OUT.work``. Each stage is a module with a function ``run``,
which reads the files of earlier stages and writes its own; stages may be interrupted at any moment and resumed, since
files appear when they are complete, and drivers that a stage calls resume by themselves. ``requirements.py`` finds out
what fine-tuning can do with a model folder.

The package must not import ``cli/`` or ``vosk/``. Kaldi has recipes for this, but each needs the files of the model's
training; trees, pronunciations and sentences from a bare decoding graph are our own. Pronunciations of new words could
come from Phonetisaurus or espeak-ng, where these are installed (``--lexicon``).

Stages, with the files that they read and write in the work folder:

1. ``check.run``. Reads the user's data and, if given, ``--held-out-data``, ``--old-data`` and ``--old-test``. Writes
   Kaldi data folders ``data/train``, ``data/held_out``, ``data/old_data`` (names begin with ``old-``) and
   ``data/old_test`` (both only if given): ``wav.scp`` (into an archive; 16 bits, one channel, an entry for each
   utterance, at the model's rate, segments cut out already), ``text`` (only words as ``words.txt`` of the model writes
   them, or words to be learned), ``utt2spk``, ``spk2utt``, ``utt2dur``; ``problems.txt`` for people and
   ``problems.json``; ``unknown_words.txt`` (COUNT WORD). Nnet3Error if too little is left.
2. ``model.run``. Writes ``model/``: ``final.mdl``, ``tree``, ``phones.txt``, ``lexicon.txt`` (phones as in phones.txt
   without ``_B`` … if they are position-dependent), ``word_boundary.int`` (if phones are), ``lm.arpa`` (if there is
   one): what the model folder has, or else what can be recovered from its graph (``graph_tree.py``, ``graph_words.py``;
   of a lookahead graph, only pronunciations of needed words). A recovered tree is an ordinary ``ContextDependency``.
   ``tree`` or ``lexicon.txt`` is missing if it can be neither read nor recovered.
3. ``words.run``. Reads the texts and ``model/``. Writes ``lang/`` as prepare-lang does (words are renumbered; those
   without a pronunciation are not in it), ``lang/new_words.txt`` (WORD SOURCE PHONE …), ``lang/lm.arpa`` (old and new
   text interpolated) and ``graph/`` (HCLG.fst, words.txt, phones.txt, phones/word_boundary.int); no ``graph/`` where
   the old one stays. Without tree or lexicon only ``lang/words.txt`` and ``lang/phones.txt``. Of a folder with HCLr.fst
   and Gr.fst, ``lang/`` has the words of the data only, and ``graph/`` these two files with the new words, numbered
   after the others (``lookahead_words.py``).
4. ``features.run``. Writes ``features/train``, ``features/held_out`` and perhaps ``features/old_data``: the data
   folders (speed- and volume-perturbed copies with them in train, ``utt2uniq``) with ``feats.scp`` and
   ``utt2num_frames``, ``ivectors/…`` with ``ivector_online.scp`` if the model has i-vectors.
5. ``align.run``. Writes ``align/`` (``ali.1.gz``, ``num_jobs``, ``final.mdl``, ``tree``, ``phones.txt``) and
   ``align/set_aside.txt`` (UTTERANCE REASON).
6. ``egs.run``. Writes ``egs/``, a folder of chain examples, with ``den.fst`` and ``normalization.fst`` in ``train/``.
7. ``train.run``. Writes ``train/final.mdl``, and ``train/choice.json``: learning rate, epochs, objectives on held-out
   data, ``is_old``: whether the parameters are the old ones. With ``data/old_test``, the parameters are interpolated
   with the old ones until the old data are recognized as before.
8. ``folder.run``. Writes ``new_model/`` in the layout of the old folder. A new graph stands beside the old one in the
   same HCLG.fst; HCLr.fst and Gr.fst with new words replace the old ones.
9. ``report.run``. Recognizes ``data/held_out`` and ``data/old_test`` with the old folder and with ``new_model/``.
   Writes ``scores.json``, ``report.txt`` and ``report.html``; moves ``new_model/`` to ``--out`` unless its word error
   rates are higher.
"""
from __future__ import annotations
