"""Fine-tuning: a model folder for recognition and some speech with its words in, a new model folder out.

``FineTuning(options).run()`` of ``fine_tuning.py`` is a :class:`~nnet3py.drivers.staged.StagedWork` in the folder
``OUT.work``: each stage is a module with one function ``run(work, options)`` (some take ``executor`` and ``terminal``
besides), which reads what earlier stages left in the work folder, writes its own files, and may be ended and begun
again at any moment (files appear when they are complete; drivers that a stage calls resume by themselves).
``plan.py`` has what all of them share, without numpy: ``FineTuneOptions``, ``Utterance``, ``Problem``,
``SpeechData``, ``Requirements``, and ``WorkFolder``, which names the files. ``requirements.py`` says what a model
folder allows.

Stages, and what they read and write in the work folder (``WorkFolder`` has the paths):

1. ``check.run``. Reads the user's data and, if given, ``--held-out-data``, ``--old-data`` and ``--old-test``. Writes
   Kaldi data folders ``data/train``, ``data/held_out``, ``data/old_data`` (names begin with ``old-``) and
   ``data/old_test`` (both only if given): ``wav.scp`` (into an archive; 16 bits, one channel, an entry for each
   utterance, at the model's rate, segments cut out already), ``text`` (only words as ``words.txt`` of the model writes
   them, or words to be learned), ``utt2spk``, ``spk2utt``, ``utt2dur``; ``problems.txt`` for people and
   ``problems.json``; ``unknown_words.txt`` (COUNT WORD). Nnet3Error if too little is left.
2. ``model.run``. Writes ``model/``: ``final.mdl``, ``tree``, ``phones.txt``, ``lexicon.txt`` (phones as in phones.txt
   without ``_B`` … if they are position-dependent), ``word_boundary.int`` (if phones are), ``lm.arpa`` (if there is
   one): what the model folder has, or else what can be recovered from its graph (``graph_*.py``; of a graph in two
   parts, the pronunciations of words that are needed). A tree that is recovered is a
   ``ContextDependency`` like any other (a table of phone, then of its left neighbor, to pdf), so that nothing after
   it makes a difference. ``tree`` or ``lexicon.txt`` is not there where neither way leads to it.
3. ``words.run``. Reads the texts and ``model/``. Writes ``lang/`` as prepare-lang does (words are
   renumbered; those without a pronunciation are not in it), ``lang/new_words.txt`` (WORD SOURCE PHONE …),
   ``lang/lm.arpa`` (old and new text interpolated) and ``graph/`` (HCLG.fst, words.txt, phones.txt,
   phones/word_boundary.int); no ``graph/`` where the old one stays. Without tree or lexicon only ``lang/words.txt``
   and ``lang/phones.txt``. Of a folder with HCLr.fst and Gr.fst, ``lang/`` has the words of the data only, and
   ``graph/`` these two files with the new words, numbered after the others (``wider_graph.py``).
4. ``features.run``. Writes ``features/train``, ``features/held_out`` and perhaps ``features/old_data``: the data
   folders (speed- and volume-perturbed copies with them in train, ``utt2uniq``) with ``feats.scp`` and
   ``utt2num_frames``, ``ivectors/…`` with ``ivector_online.scp`` if the model has i-vectors.
5. ``align.run``. Writes ``align/`` (``ali.1.gz``, ``num_jobs``, ``final.mdl``, ``tree``, ``phones.txt``) and
   ``align/set_aside.txt`` (UTTERANCE REASON).
6. ``egs.run``. Writes ``egs/``, a folder of chain examples, with ``den.fst`` and ``normalization.fst`` in ``train/``.
7. ``train.run``. Writes ``train/final.mdl``, and ``train/choice.json``: learning rate, epochs, objectives on held-out
   data, ``is_old``: whether it went back to the old parameters. With ``data/old_test``, ``forgetting.py`` goes back
   towards the old parameters until the old data are recognized as before.
8. ``folder.run``. Writes ``new_model/`` in the layout of the old folder. A new graph stands beside the old one in the
   same HCLG.fst (``joined_graph.py``); HCLr.fst and Gr.fst with new words replace the old ones.
9. ``report.run``. Recognizes ``data/held_out`` and ``data/old_test`` with the old folder and with ``new_model/``.
   Writes ``scores.json``, ``report.txt`` and ``report.html``; moves ``new_model/`` to ``--out`` unless it got worse.
"""
from __future__ import annotations
