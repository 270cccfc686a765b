"""Tiny chain trainings for the driver: examples and graphs of tests/data/chain, and networks for them."""
from __future__ import annotations

from pathlib import Path

from driver_cases import write_configs
from paths import DATA

from nnet3py.egs.chain_example import CHAIN_EXAMPLE, read_chain_egs
from nnet3py.io.tables import write_table

CHAIN = DATA / "chain"
FEAT_DIM, NUM_PDFS = 40, 56
WIDTH, CONTEXT = "60,45,30", 6                     # of tests/data/chain/cegs.ark
NUM_EGS = 19

_NETWORK = """input-node name=input dim={dim}
component name=affine1 type=NaturalGradientAffineComponent input-dim={spliced} output-dim=12
component-node name=affine1 component=affine1 input=Append(Offset(input, -2), input, Offset(input, 2))
component name=relu1 type=RectifiedLinearComponent dim=12
component-node name=relu1 component=relu1 input=affine1
component name=norm1 type=BatchNormComponent dim=12
component-node name=norm1 component=norm1 input=relu1
component name=dropout1 type=DropoutComponent dim=12 dropout-proportion=0.1
component-node name=dropout1 component=dropout1 input=norm1
component name=affine2 type=NaturalGradientAffineComponent input-dim=12 output-dim={classes} param-stddev=0
component-node name=affine2 component=affine2 input=dropout1
output-node name=output input=affine2 objective=linear
component name=affine3 type=NaturalGradientAffineComponent input-dim=12 output-dim={classes} param-stddev=0
component-node name=affine3 component=affine3 input=dropout1
component name=softmax type=LogSoftmaxComponent dim={classes}
component-node name=softmax component=softmax input=affine3
output-node name=output-xent input=softmax objective=linear
"""


def write_chain_configs(folder: Path, dim: int = FEAT_DIM, lda: bool = False) -> None:
    """``configs/`` of a network for features of a dimension; with an LDA-like transform of 3 frames if ``lda``."""
    network = _NETWORK.replace("{dim}", str(dim)).replace("{spliced}", str(3 * dim))
    write_configs(folder, network, (2, 2), NUM_PDFS, lda=lda)
    if lda and dim != FEAT_DIM:
        init = folder / "configs" / "init.config"
        init.write_text(init.read_text().replace(f"dim={FEAT_DIM}", f"dim={dim}"))


def write_chain_egs(folder: Path, num_archives: int = 2) -> Path:
    """A folder of chain examples at a third of the frame rate."""
    (folder / "info").mkdir(parents=True)
    examples = list(read_chain_egs(f"ark:{CHAIN / 'cegs.ark'}"))
    assert len(examples) == NUM_EGS
    parts = {f"cegs.{number + 1}.ark": examples[number:15:num_archives] for number in range(num_archives)}
    for name, held in {**parts, "combine.cegs": examples[:6], "train_diagnostic.cegs": examples[:5],
                       "valid_diagnostic.cegs": examples[15:]}.items():
        write_table(f"ark:{folder / name}", CHAIN_EXAMPLE, held)
    info = {"num_archives": num_archives, "frames_per_eg": WIDTH, "feat_dim": FEAT_DIM, "ivector_dim": 0,
            "left_context": CONTEXT, "right_context": CONTEXT, "left_context_initial": -1, "right_context_final": -1,
            "num_frames": 1000, "egs_per_archive": 7, "num_pdfs": NUM_PDFS, "frame_subsampling_factor": 3}
    for name, value in info.items():
        (folder / "info" / name).write_text(f"{value}\n")
    return folder


def write_tree_dir(folder: Path) -> Path:
    """A folder with the tree and its transition model, without alignments."""
    folder.mkdir(parents=True)
    for name, target in (("tree", "tree"), ("0.trans_mdl", "final.mdl")):
        (folder / target).write_bytes((CHAIN / name).read_bytes())
    return folder
