"""Stand-ins for the programs that a training starts, so that a whole training takes two seconds.

Each writes a checksum of its command line, of the files that this names and of what a pipe gives it, to its last
argument (a file, a pipe or standard output): the final "model" depends on everything that happened before. Run as a
program, this file is a driver that starts them.
"""
from __future__ import annotations

import sys
from pathlib import Path

PROGRAMS = ("nnet3-init", "nnet3-copy", "nnet3-train", "nnet3-average", "nnet3-compute-prob", "nnet3-info",
            "nnet3-show-progress", "nnet3-acc-lda-stats", "sum-lda-accs", "nnet-get-feature-transform", "nnet3-combine",
            "nnet3-chain-train", "nnet3-chain-compute-prob", "nnet3-chain-acc-lda-stats", "nnet3-chain-combine",
            "nnet3-am-copy", "nnet3-am-init", "nnet3-am-info", "copy-transition-model", "chain-make-den-fst")

SCRIPT = r"""#!/bin/bash
name=${0##*/}
for last; do :; done
[ "$name" != sum-lda-accs ] && [ "$name" != nnet-get-feature-transform ] || last=$1
words="$*"
contents() {
  echo "$name $words"
  [ ! -p /dev/stdin ] || grep . || exit 1
  for word in $words; do
    case $word in *cache.*|"$last") ;; *) word=${word#ark:}; [ ! -f "$word" ] || cat "$word" ;; esac
  done
}
write() {   # nothing, if what came before in a pipe was killed
  local body
  body=$(contents) || exit 1
  case $1 in
    -) sha256sum <<<"$body" ;;
    "|"*) sha256sum <<<"$body" | bash -c "${1#|}" ;;
    *) sha256sum <<<"$body" > "$1.$$" && mv "$1.$$" "$1" ;;
  esac
}
case $name in
  nnet3-info|nnet3-am-info|nnet3-show-progress) ;;
  nnet3-compute-prob)
    echo "LOG ($name[5.5]:x():y.cc:1) Overall accuracy for 'output' is 0.5 per frame, over 8 frames." ;;
  nnet3-chain-compute-prob)
    echo "LOG ($name[5.5]:x():y.cc:1) Overall log-probability for 'output' is -0.2 per frame, over 8 frames." ;;
  nnet3-train|nnet3-chain-train)
    write "$last"
    sleep 0.05
    echo "LOG ($name[5.5]:x():y.cc:1) Overall average objective function for 'output' is -1.5 over 64 frames." ;;
  chain-make-den-fst) write "$4" && write "$5" ;;
  *) write "$last" ;;
esac
"""


def write_programs(folder: Path) -> Path:
    """Write the stand-ins; returns the folder."""
    folder.mkdir(parents=True)
    for name in PROGRAMS:
        (folder / name).write_text(SCRIPT)
        (folder / name).chmod(0o755)
    return folder


def main(programs: str, folder: str, kind: str = "raw") -> None:
    """Train in ``folder`` with the stand-ins in ``programs``: a raw network, or a chain model (kind "chain")."""
    from nnet3py.drivers import executor as job_process
    from nnet3py.drivers.chain_training import ChainTraining
    from nnet3py.drivers.frame_level import RawTraining
    from nnet3py.drivers.options import ChainOptions, RawDnnOptions

    class Training(RawTraining):
        def has_report(self) -> bool:
            return True

    job_process.launcher_folder = lambda: Path(programs)
    values = {"dir": folder, "egs_dir": "egs", "num_jobs_final": 3, "use_gpu": "no", "max_models_combine": 3,
              "preserve_model_interval": 4, "num_threads": 3}
    if kind == "chain":
        ChainTraining(ChainOptions(num_epochs=2.0, tree_dir="tree", phone_lm="phone_lm.fst", chunk_width="60,45,30",
                                   **values)).run()
    else:
        Training(RawDnnOptions(num_epochs=0.7, **values)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
