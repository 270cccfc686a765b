"""Tiny trainings for the drivers: folders of examples, configs and alignments; an iteration takes a second or two."""
from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from paths import DATA

from nnet3py.egs.example import EXAMPLE, NnetExample, NnetIo, read_egs
from nnet3py.io.tables import write_table

FEAT_DIM, FRAMES_PER_EG, LEFT, RIGHT = 40, 8, 4, 3        # of tests/data/egs/compressed.ark
NUM_CLASSES = 28

TDNN = f"""input-node name=input dim={FEAT_DIM}
component name=affine1 type=NaturalGradientAffineComponent input-dim={3 * FEAT_DIM} output-dim=12
component-node name=affine1 component=affine1 input=Append(Offset(input, -2), input, Offset(input, 2))
component name=sigmoid1 type=SigmoidComponent dim=12
component-node name=sigmoid1 component=sigmoid1 input=affine1
component name=dropout1 type=DropoutComponent dim=12 dropout-proportion=0.1
component-node name=dropout1 component=dropout1 input=sigmoid1
component name=affine2 type=NaturalGradientAffineComponent input-dim=12 output-dim={{classes}} param-stddev=0
component-node name=affine2 component=affine2 input=dropout1
component name=softmax type=LogSoftmaxComponent dim={{classes}}
component-node name=softmax component=softmax input=affine2
output-node name=output input=softmax objective=linear
"""

RNN = f"""input-node name=input dim={FEAT_DIM}
component name=affine1 type=NaturalGradientAffineComponent input-dim={FEAT_DIM + 12} output-dim=12
component-node name=affine1 component=affine1 input=Append(input, IfDefined(Offset(tanh1, -1)))
component name=tanh1 type=TanhComponent dim=12
component-node name=tanh1 component=tanh1 input=affine1
component name=affine2 type=NaturalGradientAffineComponent input-dim=12 output-dim={{classes}} param-stddev=0
component-node name=affine2 component=affine2 input=tanh1
component name=softmax type=LogSoftmaxComponent dim={{classes}}
component-node name=softmax component=softmax input=affine2
output-node name=output input=softmax objective=linear
"""

LDA_INIT = f"""input-node name=input dim={FEAT_DIM}
output-node name=output input=Append(Offset(input, -2), input, Offset(input, 2))
"""


_SPLICED = "input=Append(Offset(input, -2), input, Offset(input, 2))"


def with_lda(config: str, folder: Path) -> str:
    """The network on top of that of ``LDA_INIT``: a fixed transform, estimated before training, comes first."""
    lda = (f"component name=lda type=FixedAffineComponent matrix={folder.name}/configs/lda.mat\n"
           f"component-node name=lda component=lda {_SPLICED}\n")
    return lda + config.split("\n", 1)[1].replace(_SPLICED, "input=lda")


def write_configs(folder: Path, config: str, context: tuple[int, int], classes: int = NUM_CLASSES,
                  lda: bool = False) -> None:
    """``configs/`` of a training in ``folder``; ``lda``: with a transform that commands run beside it will find."""
    configs = folder / "configs"
    configs.mkdir(parents=True)
    text = config.format(classes=classes)
    if lda:
        text = with_lda(text, folder)
        (configs / "init.config").write_text(LDA_INIT)
    (configs / "final.config").write_text(text)
    (configs / "vars").write_text(f"model_left_context={context[0]}\nmodel_right_context={context[1]}\n")


def write_egs(folder: Path, num_archives: int = 3, classes: int = NUM_CLASSES) -> Path:
    """A folder of examples, chunks of 8 frames, made of those in tests/data."""
    (folder / "info").mkdir(parents=True)
    examples = list(read_egs(f"ark:{DATA / 'egs' / 'compressed.ark'}"))
    if classes != NUM_CLASSES:
        examples = [(key, _of_classes(eg, classes)) for key, eg in examples]
    archives = {f"egs.{number + 1}.ark": examples[number:15:num_archives] for number in range(num_archives)}
    for name, held in {**archives, "combine.egs": examples[:6], "train_diagnostic.egs": examples[:5],
                       "valid_diagnostic.egs": examples[15:]}.items():
        write_table(f"ark:{folder / name}", EXAMPLE, dict(held))
    info = {"num_archives": num_archives, "frames_per_eg": FRAMES_PER_EG, "feat_dim": FEAT_DIM, "ivector_dim": 0,
            "left_context": LEFT, "right_context": RIGHT, "left_context_initial": -1, "right_context_final": -1,
            "num_frames": 160, "egs_per_archive": 5}
    for name, value in info.items():
        (folder / "info" / name).write_text(f"{value}\n")
    return folder


def _of_classes(eg: NnetExample, classes: int) -> NnetExample:
    """The example with its classes taken modulo ``classes``."""
    io = {one.name: one for one in eg.io}
    dense = np.zeros((len(io["output"].indexes), classes), np.float32)
    for row, old in enumerate(io["output"].features.to_dense()):
        dense[row, int(np.argmax(old)) % classes] = 1.0
    return NnetExample([NnetIo(name, one.indexes, dense if name == "output" else one.features)
                        for name, one in io.items()])


def write_alignments(folder: Path) -> Path:
    """A folder of alignments in one piece; the tree has 10 classes."""
    folder.mkdir(parents=True)
    source = DATA / "drivers"
    (folder / "final.mdl").write_bytes((source / "trans.mdl").read_bytes())
    (folder / "tree").write_bytes((source / "tree").read_bytes())
    (folder / "num_jobs").write_text("1\n")
    with gzip.open(folder / "ali.1.gz", "wt") as stream:           # any of the model's 20 transition-ids will do
        for utterance in range(4):
            stream.write(f"u{utterance} {' '.join(str((utterance + 7 * t) % 20 + 1) for t in range(50))}\n")
    return folder
