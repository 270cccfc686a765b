"""What ``make test-oldest`` installs."""
from __future__ import annotations

from lower_bounds import lower_bounds
from paths import ROOT


def test_of_our_own_setup() -> None:
    bounds = lower_bounds((ROOT / "setup.cfg").read_text(encoding="utf-8"))
    names = [bound.partition("==")[0] for bound in bounds]
    assert {"numba", "numpy", "scipy", "click", "pytest", "ruff"} <= set(names)
    assert len(set(names)) == len(names) and all("==" in bound and ">" not in bound for bound in bounds)


def test_markers_stay() -> None:
    setup = """[options]
install_requires =
    a>=1.2
[options.extras_require]
test =
    b>=3; sys_platform == "linux"
lint =
    a>=1.2
"""
    assert lower_bounds(setup) == ["a==1.2", 'b==3; sys_platform == "linux"']
