"""``stats-layer``: means and standard deviations over a window of time, or over a whole utterance."""
from __future__ import annotations

import re

from nnet3py.xconfig.layer import ConfigLines, Layer, lower

_CONFIG = re.compile(r"mean(\+stddev)?(\+count)?\(-?([0-9]{1,9}):([0-9]{1,9}):([0-9]{1,9}):([0-9]{1,9})\)\Z")


class StatsLayer(Layer):
    """Extraction of sums over short periods, then pooling over ``config``'s window."""

    OPTIONS = {"input": "[-1]", "dim": -1, "config": ""}
    DIM_FROM_INPUT = False

    def derive(self) -> None:
        matched = _CONFIG.match(self.string("config"))
        if not matched:
            raise self.line.error(f"config= must be such as mean+stddev(-99:3:9:99), found '{self.string('config')}'",
                                  "left context, input period, output period, right context; mean, mean+stddev, "
                                  "mean+count or mean+stddev+count")
        self.stddev, self.count = bool(matched[1]), bool(matched[2])
        self.left, self.input_period, self.period, self.right = (int(number) for number in matched.groups()[2:])
        self.need(self.input_period > 0 and self.period > 0, "a period in config= is zero")
        self.need(self.period % self.input_period == 0,
                  f"the output period {self.period} is not a multiple of the input period {self.input_period}")
        self.need(self.left % self.period == 0 and self.right % self.period == 0,
                  f"the contexts {self.left} and {self.right} must be multiples of the output period {self.period}")
        dim = self.input_dim * (2 if self.stddev else 1) + self.count
        given = self.integer("dim")
        self.need(given <= 0 or given == dim, f"dim={given}, but the statistics have {dim} columns")
        self.values["dim"] = dim

    def output(self) -> str:
        return f"Round({self.name}-pooling-{self.left}-{self.right}, {self.period})"

    def build(self, lines: ConfigLines) -> None:
        window = f"{self.left}-{self.right}"
        extracted = lines.step(
            f"{self.name}-extraction-{window}", "StatisticsExtractionComponent",
            f"input-dim={self.input_dim} input-period={self.input_period} output-period={self.period} "
            f"include-variance={lower(self.stddev)} ", f"{self.input} ")
        lines.step(
            f"{self.name}-pooling-{window}", "StatisticsPoolingComponent",
            f"input-dim={1 + self.input_dim * (2 if self.stddev else 1)} input-period={self.period} "
            f"left-context={self.left} right-context={self.right} num-log-count-features={int(self.count)} "
            f"output-stddevs={lower(self.stddev)} ", f"{extracted} ")
