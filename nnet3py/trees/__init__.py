"""Decision trees over phones in context: their statistics, questions, growth, drawings, and first models made of them.

Most used are ``TreeStats`` (``stats.py``: events as an int32 table, the moments of their features as rows),
``build_tree`` (``build.py``) and ``question_sets`` (``clustering.py``). ``draw.py`` shows trees, ``initial_models.py``
makes the first models of ``gaussians/mixtures.py``. Rounding is Kaldi's single precision where it makes gains equal,
because then the order decides.

The room must not import decoding or training. scikit-learn's trees and clusters have neither these questions nor
Kaldi's rounding.
"""
