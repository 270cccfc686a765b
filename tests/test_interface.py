"""nnet3py/engine/interface.py: memory that compiled code uses is there until the process ends."""
from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref

import numpy as np
from paths import ROOT

from nnet3py.engine import team
from nnet3py.engine.interface import lasting

# the whole life of a process that has kernels, workers, and the words by which they agree
KERNELS = """
import numpy as np
from nnet3py.engine.threads import set_num_threads
from nnet3py.ops import get_ops
set_num_threads(2)
get_ops("cpu").add_mat(np.zeros((3000, 100), np.float32), np.zeros((3000, 100), np.float32), 2.0)
"""


class Thing:
    """Something that can be referred to weakly."""


def test_what_is_lasting_is_never_freed() -> None:
    kept, freed = lasting(Thing()), Thing()
    places = weakref.ref(kept), weakref.ref(freed)
    del kept, freed
    gc.collect()
    assert places[0]() is not None and places[1]() is None


def test_words_last() -> None:
    words = team.lasting_words(3)
    assert words.ctypes.data % 64 == 0 and words.dtype == np.int64 and not words.any() and len(words) == 3
    space = weakref.ref(words.base)
    del words
    gc.collect()
    assert space() is not None


def test_a_process_ends_well_whose_freed_memory_is_overwritten() -> None:
    """At its end Python frees modules before functions of theirs, which must still find what describes them."""
    environment = {**os.environ, "MALLOC_PERTURB_": "90", "PYTHONMALLOC": "malloc"}      # glibc's does, not Python's
    done = subprocess.run([sys.executable, "-c", KERNELS], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
