"""The same networks in PyTorch, trained by plain SGD: its eager mode, and torch.compile."""
from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_parts.clock import seconds
from gpu_parts.nets import Sizes
from gpu_parts.steps import REPEATS

DEVICE = "cuda"                 # the tests have another
WARM = 5
LEARNING_RATE = 1e-3
TDNN_CONTEXT = 2 + 3            # of the TDNN-LSTM, on either side


class TdnnLstm:
    """The network of nets.tdnn_lstm: a loop over time, cell by cell, in each LSTM layer."""

    def __init__(self, sizes: Sizes) -> None:
        import torch

        cells, both = sizes.cells, 2 * sizes.projection
        self.sizes, self.training, generator = sizes, True, torch.Generator(device=DEVICE).manual_seed(0)

        def weights(*shape: int) -> Any:
            spread = torch.randn(*shape, generator=generator, device=DEVICE)
            return (spread / shape[1] ** 0.5).requires_grad_()

        def zeros(*shape: int) -> Any:
            return torch.zeros(*shape, device=DEVICE, requires_grad=True)

        self.convolutions = [(weights(cells, 40, 5), zeros(cells), 1), (weights(cells, both, 3), zeros(cells), 3)]
        self.lstms = [(weights(4 * cells, cells + sizes.projection), zeros(4 * cells), weights(3, cells),
                       weights(both, cells), zeros(both)) for _ in range(2)]
        self.output = weights(sizes.pdfs, both), zeros(sizes.pdfs)

    def parameters(self) -> list[Any]:
        """What is trained."""
        return [*(p for w, b, _ in self.convolutions for p in (w, b)), *(p for lstm in self.lstms for p in lstm),
                *self.output]

    def __call__(self, x: Any) -> Any:
        """Log-probabilities (sequences, pdfs, frames) of features (sequences, 40, frames with their context)."""
        import torch.nn.functional as F

        for (weight, bias, step), lstm in zip(self.convolutions, self.lstms, strict=True):
            x = F.relu(F.conv1d(x, weight, bias, dilation=step))
            x = F.batch_norm(x, None, None, training=True, eps=1e-3)
            x = self._lstm(x, *lstm)
        return F.log_softmax(F.conv1d(x, self.output[0].unsqueeze(2), self.output[1]), dim=1)

    def _lstm(self, x: Any, weight: Any, bias: Any, peephole: Any, project: Any, project_bias: Any) -> Any:
        """A projected LSTM layer whose recurrence goes three frames back."""
        import torch
        import torch.nn.functional as F

        cells: list[Any] = []
        outputs: list[Any] = []
        frames = x.permute(2, 0, 1).unbind(0)
        for t, frame in enumerate(frames):
            if t >= 3:
                back, cell = outputs[t - 3][:, :self.sizes.projection], cells[t - 3]
            else:
                back, cell = (frame.new_zeros(len(frame), n) for n in (self.sizes.projection, self.sizes.cells))
            i, f, c, o = F.linear(torch.cat((frame, back), 1), weight, bias).chunk(4, 1)
            cell = torch.sigmoid(f + peephole[1] * cell) * cell + torch.sigmoid(i + peephole[0] * cell) * torch.tanh(c)
            m = torch.sigmoid(o + peephole[2] * cell) * torch.tanh(cell)
            cells.append(cell)
            outputs.append(F.linear(m, project, project_bias))
        return torch.stack(outputs, 2)


def _step(model: Any, forward: Callable[[Any], Any], x: Any, labels: Any) -> Callable[[], None]:
    import torch
    import torch.nn.functional as F

    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE / len(x))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.nll_loss(forward(x), labels, reduction="sum").backward()
        optimizer.step()

    return step


def _tdnnf(text: str) -> tuple[Any, int]:
    """PyTorch's model of a TDNN-F config, and the frames of its context on both sides together."""
    import torch
    import torch_tdnnf

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.config"
        path.write_text(text)
        layers = torch_tdnnf.read_layers(path)
    torch.set_default_device(DEVICE)
    try:
        return torch_tdnnf.Model(layers, "conv1d"), sum(torch_tdnnf.context(layers))
    finally:
        torch.set_default_device("cpu")


def step_seconds(net: str, text: str, sizes: Sizes, tf32: bool, compiled: bool, training: bool) -> tuple[float, float]:
    """Seconds of a step (of SGD, or of computing the outputs), and megabytes."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    on_gpu = DEVICE == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    model, context = _tdnnf(text) if net == "TDNN-F" else (TdnnLstm(sizes), 2 * TDNN_CONTEXT)
    model.training = training
    x = torch.randn(sizes.sequences, 40, sizes.frames + context, device=DEVICE)
    labels = torch.randint(sizes.pdfs, (sizes.sequences, sizes.frames), device=DEVICE)
    forward = torch.compile(model.__call__) if compiled else model
    step = _step(model, forward, x, labels)

    def compute() -> None:
        with torch.inference_mode():
            forward(x)

    taken = seconds(step if training else compute, WARM, REPEATS, torch.cuda.synchronize if on_gpu else lambda: None)
    return taken, torch.cuda.max_memory_allocated() / 2**20 if on_gpu else 0.0


def is_usable() -> bool:
    """Whether PyTorch is installed and sees the GPU."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())
