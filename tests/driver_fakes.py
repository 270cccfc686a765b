"""Stand-ins for the programs that a training starts, so that a whole training takes two seconds.

Each writes a checksum of its command line, and of the files that this names, to its last argument: the final "model"
depends on everything that happened before. Run as a program, this file is a driver that starts them.
"""
from __future__ import annotations

import sys
from pathlib import Path

PROGRAMS = ("nnet3-init", "nnet3-copy", "nnet3-train", "nnet3-average", "nnet3-compute-prob", "nnet3-info",
            "nnet3-show-progress", "nnet3-acc-lda-stats", "sum-lda-accs", "nnet-get-feature-transform", "nnet3-combine")

SCRIPT = r"""#!/bin/bash
name=${0##*/}
for last; do :; done
[ "$name" != sum-lda-accs ] && [ "$name" != nnet-get-feature-transform ] || last=$1
words="$*"
contents() {
  echo "$name $words"
  for word in $words; do
    case $word in *cache.*|"$last") ;; *) word=${word#ark:}; [ ! -f "$word" ] || cat "$word" ;; esac
  done
}
case $name in
  nnet3-info|nnet3-show-progress) ;;
  nnet3-compute-prob)
    echo "LOG ($name[5.5]:x():y.cc:1) Overall accuracy for 'output' is 0.5 per frame, over 8 frames." ;;
  *)
    contents | sha256sum > "$last.$$" && mv "$last.$$" "$last"
    [ "$name" != nnet3-train ] || sleep 0.05
    [ "$name" != nnet3-train ] ||
      echo "LOG ($name[5.5]:x():y.cc:1) Overall average objective function for 'output' is -1.5 over 64 frames." ;;
esac
"""


def write_programs(folder: Path) -> Path:
    """Write the stand-ins; returns the folder."""
    folder.mkdir(parents=True)
    for name in PROGRAMS:
        (folder / name).write_text(SCRIPT)
        (folder / name).chmod(0o755)
    return folder


def main(programs: str, folder: str) -> None:
    """Train in ``folder`` with the stand-ins in ``programs``."""
    from nnet3py.drivers import job_process
    from nnet3py.drivers.frame_level import RawDnnTraining
    from nnet3py.drivers.options import RawDnnOptions

    class Training(RawDnnTraining):
        def has_report(self) -> bool:
            return True

    job_process.launcher_folder = lambda: Path(programs)
    Training(RawDnnOptions(dir=folder, egs_dir="egs", num_epochs=0.7, num_jobs_final=3, use_gpu="no",
                           max_models_combine=3, preserve_model_interval=4, num_threads=3)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
