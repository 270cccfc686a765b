"""Transforms of the features: fixed ones (LDA, inverse cosine), trained ones, and masks over time and frequency."""
from __future__ import annotations

import math

from nnet3py.xconfig.layer import EVERYWHERE, INITIAL, NETWORK, ConfigLines, Layer

LARGEST_COSINE_TRANSFORM = 2000      # rows; the matrix is written as text


class FixedAffineLayer(Layer):
    """``fixed-affine-layer``: a transform estimated from the data, such as LDA, whose matrix is in a file."""

    OPTIONS = {"input": "[-1]", "dim": -1, "affine-transform-file": "", "delay": 0, "write-init-config": True}

    def derive(self) -> None:
        self.need(self.string("affine-transform-file") != "", f"{self.type} needs affine-transform-file=")

    def build(self, lines: ConfigLines) -> None:
        if self.flag("write-init-config"):
            self._add_initial_output(lines)
        lines.component(self.name, "FixedAffineComponent", f"matrix={self.string('affine-transform-file')}", ("final",))
        lines.component(self.name, "FixedAffineComponent",
                        f"input-dim={self.input_dim} output-dim={self.integer('dim')}", ("ref",))
        lines.node(self.name, self.name, self.input)

    def _add_initial_output(self, lines: ConfigLines) -> None:
        """Return the network from which the transform is estimated ends at this layer's input."""
        source, delay = self.input, self.integer("delay")
        if delay:
            source = lines.step(self.at("delayed"), "NoOpComponent", f"dim={self.input_dim}", source, INITIAL)
            source = f"Offset({source}, {delay})"
        lines.add(f"output-node name=output input={source}", INITIAL)


class AffineLayer(Layer):
    """``affine-layer``: a trained affine transform and nothing else."""

    OPTIONS = {"input": "[-1]", "dim": -1, "param-stddev": -1.0, "bias-stddev": 1.0, "bias-mean": 0.0,
               "max-change": 0.75, "l2-regularize": 0.0, "learning-rate-factor": 1.0, "ng-affine-options": ""}

    def derive(self) -> None:
        if self.number("param-stddev") < 0:
            self.values["param-stddev"] = 1.0 / math.sqrt(self.input_dim)
        self.need_within(0.0, math.inf, "bias-stddev", "max-change", "learning-rate-factor", "l2-regularize")

    def build(self, lines: ConfigLines) -> None:
        # Kaldi puts no blank before these options, so only those that begin with one work there.
        options = self.string("ng-affine-options")
        separator = " " if options.strip() == options and options else ""
        settings = self.pairs("param-stddev", "bias-stddev", "bias-mean", "max-change", "l2-regularize")
        lines.step(self.name, "NaturalGradientAffineComponent",
                   f"input-dim={self.input_dim} output-dim={self.integer('dim')} {settings}{separator}{options}",
                   self.input)


class IdctLayer(Layer):
    """``idct-layer``: cepstra back to log filterbank energies; its matrix is made here."""

    OPTIONS = {"input": "[-1]", "dim": -1, "cepstral-lifter": 22.0, "affine-transform-file": "",
               "include-in-init": False}

    def derive(self) -> None:
        self.need(self.string("affine-transform-file") != "",
                  f"{self.type} needs affine-transform-file=, which will be written")
        self.need(self.integer("dim") <= LARGEST_COSINE_TRANSFORM and self.input_dim <= LARGEST_COSINE_TRANSFORM,
                  f"more than {LARGEST_COSINE_TRANSFORM} dimensions")

    def build(self, lines: ConfigLines) -> None:
        path = self.string("affine-transform-file")
        lifter = lifter_coefficients(self.number("cepstral-lifter"), self.input_dim)
        self.need(all(lifter), f"cepstral-lifter={self.number('cepstral-lifter')} divides by zero")
        rows = inverse_cosine_transform(self.input_dim, self.integer("dim"), lifter)
        # A last column of zeros: the transform's offset.
        lines.files[path] = "[ " + "\n".join(" ".join(map(str, [*row, 0])) for row in rows) + " ]"
        lines.step(self.name, "FixedAffineComponent", f"matrix={path}", self.input,
                   EVERYWHERE if self.flag("include-in-init") else NETWORK)


def lifter_coefficients(lifter: float, count: int) -> list[float]:
    """Return the factors of cepstral liftering for each coefficient; ones for ``lifter`` 0."""
    if lifter == 0.0:
        return [1.0] * count
    return [1.0 + 0.5 * lifter * math.sin(math.pi * k / lifter) for k in range(count)]


def inverse_cosine_transform(cepstra: int, filters: int, lifter: list[float]) -> list[list[float]]:
    """Return the matrix (filters, cepstra) that undoes a type-two cosine transform and its liftering."""
    scale, first = math.sqrt(2.0 / filters), math.sqrt(1.0 / filters)
    return [[(first if k == 0 else scale * math.cos(math.pi / filters * (n + 0.5) * k)) / lifter[k]
             for k in range(cepstra)] for n in range(filters)]


class SpecAugmentLayer(Layer):
    """``spec-augment-layer``: zeroes a band of frequencies and stretches of time while training."""

    OPTIONS = {"input": "[-1]", "freq-max-proportion": 0.5, "time-zeroed-proportion": 0.2, "time-mask-max-frames": 20,
               "include-in-init": False}

    def derive(self) -> None:
        for key in ("freq-max-proportion", "time-zeroed-proportion"):
            self.need(0.0 < self.number(key) < 1.0,
                      f"{key}= must be above zero and below one, found {self.number(key)}")
        self.need_positive("time-mask-max-frames")

    def output(self) -> str:
        return self.at("time-mask")

    def output_dim(self) -> int:
        return self.input_dim

    def build(self, lines: ConfigLines) -> None:
        configs = EVERYWHERE if self.flag("include-in-init") else NETWORK
        masked = lines.step(self.at("freq-mask"), "GeneralDropoutComponent",
                            f"dim={self.input_dim} specaugment-max-proportion={self.number('freq-max-proportion')}",
                            self.input, configs)
        lines.step(self.at("time-mask"), "SpecAugmentTimeMaskComponent",
                   f"dim={self.input_dim} zeroed-proportion={self.number('time-zeroed-proportion')} "
                   f"{self.pairs('time-mask-max-frames')}", masked, configs)
