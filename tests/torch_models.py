"""Small PyTorch models as people write them, and the program that made tests/data/onnx of them.

    python tests/torch_models.py tests/data/onnx        needs torch and onnxscript

Each is exported by both of PyTorch's exporters: NAME.onnx by the older one, NAME-dynamo.onnx by the newer.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

DIM, HIDDEN, CLASSES, FRAMES = 4, 6, 3, 60


class Model(nn.Module):
    """Modules by name, and what is done with them."""

    def __init__(self, forward: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self.function = forward
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(self, *inputs)


def turned(x: torch.Tensor) -> torch.Tensor:
    """Frames and columns exchanged."""
    return x.transpose(1, 2)


def tdnn() -> Model:
    """Dilated convolutions without padding, batch normalization, a residual connection."""
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        x = m.norm1(torch.relu(m.tdnn1(turned(x))))
        x = m.norm2(torch.relu(m.tdnn2(x))) + 0.66 * x[:, :, 2:-2]
        return functional.log_softmax(m.output(turned(x)), -1)
    return Model(forward, tdnn1=nn.Conv1d(DIM, HIDDEN, 5), norm1=nn.BatchNorm1d(HIDDEN),
                 tdnn2=nn.Conv1d(HIDDEN, HIDDEN, 3, dilation=2), norm2=nn.BatchNorm1d(HIDDEN, affine=False),
                 output=nn.Linear(HIDDEN, CLASSES))


def same_length() -> Model:
    """Convolutions that pad with zeros, one of them with two frames more on one side."""
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(m.a(turned(x)))
        x = torch.relu(m.b(functional.pad(x, (4, 0))))
        return turned(m.output(m.c(x)))
    return Model(forward, a=nn.Conv1d(DIM, HIDDEN, 5, padding=2), b=nn.Conv1d(HIDDEN, HIDDEN, 3, dilation=2),
                 c=nn.Conv1d(HIDDEN, HIDDEN, 7, padding=3), output=nn.Conv1d(HIDDEN, CLASSES, 1))


def causal() -> Model:
    """A temporal convolutional network, which pads on both sides and cuts the end off."""
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        x = turned(x)
        y = torch.relu(m.a(x)[:, :, :-4])
        return turned(m.b(y)[:, :, :-8] + m.down(x))
    return Model(forward, a=nn.Conv1d(DIM, HIDDEN, 3, padding=4, dilation=2),
                 b=nn.Conv1d(HIDDEN, HIDDEN, 3, padding=8, dilation=4), down=nn.Conv1d(DIM, HIDDEN, 1))


def strided() -> Model:
    """A third of the frames: a stride, then a convolution of the rest; pooling."""
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool1d(functional.avg_pool1d(torch.relu(m.a(turned(x))), 3, 1), 2, 1)
        return m.output(turned(torch.relu(m.c(torch.relu(m.b(x))))))
    return Model(forward, a=nn.Conv1d(DIM, HIDDEN, 3), b=nn.Conv1d(HIDDEN, HIDDEN, 3, stride=3, padding=1),
                 c=nn.Conv1d(HIDDEN, HIDDEN, 3, padding=1), output=nn.Linear(HIDDEN, CLASSES))


def separable() -> Model:
    """Convolutions of each column alone, and of groups of columns."""
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        x = functional.silu(m.point(m.depth(turned(x))))
        return turned(m.last(functional.leaky_relu(m.groups(x), 0.2)))
    return Model(forward, depth=nn.Conv1d(DIM, DIM, 5, groups=DIM, padding=2), point=nn.Conv1d(DIM, 8, 1),
                 groups=nn.Conv1d(8, 12, 3, groups=4), last=nn.Conv1d(12, 12, 3, groups=12, bias=False))


def images() -> Model:
    """Convolutions over frames and columns, whose filters are put side by side at the end."""
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(m.norm(m.a(x.unsqueeze(1))))
        x = functional.max_pool2d(functional.relu(m.b(x)), (1, 2))
        return m.output(x.permute(0, 2, 1, 3).reshape(x.size(0), x.size(2), -1))
    return Model(forward, a=nn.Conv2d(1, 3, 3, padding=1), norm=nn.BatchNorm2d(3),
                 b=nn.Conv2d(3, 5, 3, padding=1, stride=(1, 2)), output=nn.Linear(5 * 2, CLASSES))


def columns_first() -> Model:
    """The same with frames as the last axis."""
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(m.b(functional.relu(m.a(turned(x).unsqueeze(1)))))
        return turned(m.output(x.flatten(1, 2)))
    return Model(forward, a=nn.Conv2d(1, 3, (3, 5), padding=(1, 0)), b=nn.Conv2d(3, 5, 3, dilation=(1, 2)),
                 output=nn.Conv1d(5 * 8, CLASSES, 1))


def lstm() -> Model:
    """Both directions, two layers, after a convolution that pads."""
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        return m.output(m.lstm(turned(torch.relu(m.a(turned(x)))))[0])
    return Model(forward, a=nn.Conv1d(DIM, HIDDEN, 3, padding=1), output=nn.Linear(2 * HIDDEN, CLASSES),
                 lstm=nn.LSTM(HIDDEN, HIDDEN, 2, batch_first=True, bidirectional=True))


def gru() -> Model:
    """One direction."""
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        return m.output(m.gru(x)[0])
    return Model(forward, gru=nn.GRU(DIM, HIDDEN, batch_first=True), output=nn.Linear(HIDDEN, CLASSES))


def ivector() -> Model:
    """A vector of each sequence beside the frames, and added to them."""
    def forward(m: Any, x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
        both = torch.cat([x, vector.unsqueeze(1).expand(-1, x.size(1), -1)], -1)
        return m.output(torch.relu(m.a(both) + m.b(vector).unsqueeze(1)))
    return Model(forward, a=nn.Linear(DIM + 2, HIDDEN), b=nn.Linear(2, HIDDEN), output=nn.Linear(HIDDEN, CLASSES))


def gates() -> Model:
    """Layer normalization, halves of columns, PReLU, constants, a softmax."""
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        x = m.norm(m.a((x - torch.arange(float(DIM))) / 2.0))
        x = functional.glu(torch.cat([m.slopes(turned(x)).transpose(1, 2), -x], -1), -1)
        return functional.softmax(m.output(1.0 - x), -1)
    return Model(forward, a=nn.Linear(DIM, HIDDEN), norm=nn.LayerNorm(HIDDEN), slopes=nn.PReLU(HIDDEN),
                 output=nn.Linear(HIDDEN, CLASSES))


def spliced() -> Model:
    """Rows of frames put side by side, every third; two outputs; frames of one sequence as rows of a matrix."""
    def forward(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(m.a(torch.cat([x[:, :-4], x[:, 2:-2], x[:, 4:]], -1)))[:, ::3]
        rows = m.norm(x.reshape(-1, HIDDEN))
        return m.output(rows).reshape(x.size(0), x.size(1), CLASSES), m.other(x)
    return Model(forward, a=nn.Linear(3 * DIM, HIDDEN), norm=nn.BatchNorm1d(HIDDEN), output=nn.Linear(HIDDEN, CLASSES),
                 other=nn.Linear(HIDDEN, 2))


def repeated_edges() -> Model:
    """The first and last frames are repeated before the convolution."""
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        return turned(m.a(functional.pad(turned(x), (2, 2), mode="replicate")))
    return Model(forward, a=nn.Conv1d(DIM, CLASSES, 5))


def attention() -> Model:
    """What no network has."""
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        return functional.softmax(m.query(x) @ m.key(x).transpose(1, 2), -1) @ x
    return Model(forward, query=nn.Linear(DIM, HIDDEN), key=nn.Linear(DIM, HIDDEN))


MODELS = (tdnn, same_length, causal, strided, separable, images, columns_first, lstm, gru, ivector, gates, spliced,
          repeated_edges, attention)
COLUMNS = {"images": 8, "columns_first": 10}


def made(make: Callable[[], Model]) -> tuple[Model, tuple[torch.Tensor, ...]]:
    """A model with random numbers in it, and inputs for it."""
    torch.manual_seed(0)
    model = make().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean.normal_()          # type: ignore[union-attr]
            module.running_var.uniform_(0.5, 2.0)  # type: ignore[union-attr]
            if module.affine:
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
    feats = torch.randn(2, FRAMES, COLUMNS.get(make.__name__, DIM))
    return model, (feats, torch.randn(2, 2)) if make is ivector else (feats,)


def without_traces(path: Path) -> None:
    """Take out where in which files of the exporting machine each operator comes from."""
    import onnx

    model = onnx.load(path)
    for part in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input,
                 *model.graph.output, *model.graph.initializer):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    onnx.save(model, path)


def write(folder: Path) -> None:
    """Export all of them."""
    for make in MODELS:
        model, inputs = made(make)
        names = ["feats", "vector"][:len(inputs)]
        old = {"feats": {0: "N", 1: "T"}, "vector": {0: "N"}}
        auto = torch.export.Dim.AUTO
        torch.onnx.export(model, inputs, str(folder / f"{make.__name__}.onnx"), dynamo=False, input_names=names,
                          dynamic_axes={name: old[name] for name in names}, opset_version=17)
        torch.onnx.export(model, inputs, str(folder / f"{make.__name__}-dynamo.onnx"), dynamo=True, input_names=names,
                          dynamic_shapes=(tuple({axis: auto for axis in old[name]} for name in names),),
                          external_data=False, verbose=False)
        for path in folder.glob(f"{make.__name__}*.onnx"):
            without_traces(path)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
