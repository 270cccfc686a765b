"""Kaldi's reference cases through the public interface, whole networks: how far every number is from Kaldi's."""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from compiler_cases import read_request
from component_cases import read_ark, reread
from component_forms import parts

import nnet3py
from nnet3py.network.nnet import Nnet

SMALLEST_SIZE = 1e-3       # differences are fractions of the largest value, or of this where that is less
SMALLEST_GRADIENT = 1e-2   # a bias before batch normalization has a gradient of 0 but for rounding
SMALLEST_CHANGE = 5e-5     # the same for what an update changed
SMALLEST_STATISTIC = 0.1
SMALLEST_SPREAD = 1e-6     # range of a matrix's values, as a fraction of the largest, for it to tell something


@dataclass
class Differences:
    """Largest differences of one case: of outputs and input derivatives, and by component of gradients and updates.

    Outputs and input derivatives are None where Kaldi's are constant and ours the same: a network whose last layer is
    still zero has such ones whatever its other components compute.
    """

    types: dict[str, str]                                   # component name -> type
    output: float | None = None
    input_deriv: float | None = None
    gradient: dict[str, float] = field(default_factory=dict)
    update: dict[str, float] = field(default_factory=dict)
    statistics: dict[str, float] = field(default_factory=dict)      # kept by "c gradient" and "c update"


def differences(folder: Path, device: str = "cpu", optimize: bool = True, shortcut: bool = True) -> Differences:
    """Compute the case as it says, and train on it once: the differences from what Kaldi computed."""
    nnet = nnet3py.read_nnet(str(folder / "nnet.raw"))
    request = read_request(folder / "request.txt")
    found = Differences({name: type(nnet.component(name)).__name__ for name in nnet.component_names})
    gradient = nnet.as_gradient() if request.need_model_derivative else None
    _run(nnet, gradient, request, folder, device, optimize, found, shortcut)
    if gradient is not None and (folder / "gradient.raw").exists():
        expected = nnet3py.read_nnet(str(folder / "gradient.raw"))
        found.gradient = {name: _of_parameters(gradient, expected, name, None) for name in _trained(expected)}
        found.statistics |= _of_statistics(gradient, expected, "gradient")
    if (folder / "updated.raw").exists():
        trained, expected = (nnet3py.read_nnet(str(folder / name)) for name in ("nnet.raw", "updated.raw"))
        _run(trained, trained, request, folder, device, True, None)
        found.update = {name: _of_parameters(trained, expected, name, nnet) for name in _trained(expected)}
        found.statistics |= _of_statistics(trained, expected, "update")
    return found


def _run(nnet: Nnet, update: Nnet | None, request: nnet3py.ComputationRequest, folder: Path, device: str,
         optimize: bool, found: Differences | None, shortcut: bool = True) -> None:
    io = read_ark(folder / "io.ark")
    computer = nnet3py.Computer(nnet3py.compile(nnet, request, optimize, shortcut), nnet, update=update, device=device)
    for spec in request.inputs:
        computer.accept_input(spec.name, io[f"input.{spec.name}"])
    computer.run()
    if found is not None:
        found.output = _largest(computer, io, "output", [spec.name for spec in request.outputs])
    given = [spec.name for spec in request.outputs if f"output-deriv.{spec.name}" in io]
    wanted = [spec.name for spec in request.inputs if f"input-deriv.{spec.name}" in io]
    if not given or not (wanted or update is not None):
        return
    for name in given:
        computer.accept_input(name, io[f"output-deriv.{name}"])
    computer.run()
    if found is not None:
        found.input_deriv = _largest(computer, io, "input-deriv", wanted)


def _largest(computer: nnet3py.Computer, io: dict[str, np.ndarray], kind: str, names: list[str]) -> float | None:
    """The largest difference of those matrices that tell something."""
    largest = None
    for name in names:
        expected = io[f"{kind}.{name}"]
        found = distance(computer.output(name), expected)
        if found > SMALLEST_SPREAD or np.ptp(expected) > SMALLEST_SPREAD * np.abs(expected).max(initial=0.0):
            largest = found if largest is None else max(largest, found)
    return largest


def distance(found: np.ndarray, expected: np.ndarray, scale: float | None = None) -> float:
    """The largest difference as a fraction of ``scale``, which is the largest expected value if not given."""
    assert found.shape == expected.shape and np.isfinite(found).all()
    scale = max(float(np.abs(expected).max(initial=0.0)), SMALLEST_SIZE) if scale is None else scale
    return float(np.abs(found.astype(np.float64) - expected).max(initial=0.0)) / scale


def _trained(nnet: Nnet) -> list[str]:
    return [name for name in nnet.component_names if nnet.component(name).parameters()]


def _of_statistics(ours: Nnet, theirs: Nnet, after: str) -> dict[str, float]:
    """By component, of those inside others too; as files hold them, which have averages and no sums of squares."""
    worst: dict[str, float] = {}
    for name in theirs.component_names:
        for mine, other in zip(parts(reread(ours.component(name))), parts(theirs.component(name)), strict=True):
            for key in set(other.STATISTICS) - {"sumsq"}:
                expected = getattr(other, key)
                scale = max(float(np.abs(expected).max(initial=0.0)), SMALLEST_STATISTIC)
                difference = distance(getattr(mine, key), expected, scale)
                worst[f"{name} {after}"] = max(difference, worst.get(f"{name} {after}", 0.0))
    return worst


def _of_parameters(ours: Nnet, theirs: Nnet, name: str, start: Nnet | None) -> float:
    """The largest difference of a component's parameters: of their size or, given a start, of their largest change."""
    mine, others = ours.component(name).parameters(), theirs.component(name).parameters()
    assert {key: value.shape for key, value in mine.items()} == {key: value.shape for key, value in others.items()}
    worst = 0.0
    for key, value in others.items():
        if start is None:
            scale = max(float(np.abs(value).max()), SMALLEST_GRADIENT)
        else:
            scale = max(float(np.abs(value - start.component(name).parameters()[key]).max()), SMALLEST_CHANGE)
        worst = max(worst, distance(mine[key], value, scale))
    return worst
