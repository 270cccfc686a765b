"""Several folders of chain examples as one: lists that point into their archives, for training on all of them.

Kaldi: steps/nnet3/chain/multilingual/combine_egs.sh, steps/nnet3/chain2/combine_egs.sh.
"""
from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from nnet3py.drivers.egs.egs_folder import EgsFolder
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.io.streams import write_text

logger = logging.getLogger(__name__)

BLOCK = 256              # examples that stay together, since an archive is read fastest from one place on
LEAST_BLOCKS = 8         # of an archive, so that few examples are mixed, too
_SAME = ("feat_dim", "ivector_dim", "left_context", "right_context", "left_context_initial", "right_context_final",
         "frames_per_eg", "frame_subsampling_factor", "kind")
_DIAGNOSTICS = ("combine", "train_diagnostic", "valid_diagnostic")


@dataclass(frozen=True)
class Source:
    """A folder of examples with lists beside its archives, as ``--generate-egs-scp=true`` makes them.

    Attributes
    ----------
    folder : of chain examples
    language : is put at the end of the keys, as ``?lang=LANGUAGE``; "" for none
    weight : of its examples
    copies : how often each example counts in an epoch
    """

    folder: Path
    language: str = ""
    weight: float = 1.0
    copies: int = 1


def combine_egs(sources: Sequence[Source], folder: str | Path, seed: int = 0) -> EgsFolder:
    """Make a folder of lists, ``cegs.N.scp``, whose archives have blocks of examples of all sources in random order.

    Diagnostic examples are those of all sources, one after the other. Raises FormatError for a folder without lists,
    Nnet3Error for folders whose examples differ in what must be the same, UsageError for invalid weights and copies.
    """
    target = Path(folder)
    for source in sources:
        if not (source.weight > 0.0 and source.weight < float("inf")) or source.copies < 1:
            raise UsageError(f"{source.folder} has the weight {source.weight:g} and {source.copies} copies: expected "
                             "above 0, and 1 or more")
    folders = [EgsFolder(source.folder) for source in sources]
    _check_same(folders)
    first = folders[0]
    lines_of = [[line for number in range(1, egs.num_archives + 1)
                 for line in _lines(source, f"{egs.kind}.{number}.scp")]
                for source, egs in zip(sources, folders, strict=True)]
    num_archives = sum(source.copies * egs.num_archives for source, egs in zip(sources, folders, strict=True))
    total = sum(source.copies * len(lines) for source, lines in zip(sources, lines_of, strict=True))
    size = max(1, min(BLOCK, total // (LEAST_BLOCKS * num_archives)))
    blocks = [block for source, lines in zip(sources, lines_of, strict=True)
              for block in [lines[begin:begin + size] for begin in range(0, len(lines), size)] * source.copies]
    Random(seed).shuffle(blocks)
    (target / "info").mkdir(parents=True, exist_ok=True)
    (target / "info" / "num_archives").unlink(missing_ok=True)
    weighted = any(source.weight != 1.0 for source in sources)
    for number in range(num_archives):
        lines = [line for block in blocks[number::num_archives] for line in block]
        _write(target, f"{first.kind}.{number + 1}.scp", f"{first.kind}.weight.{number + 1}.ark", lines, weighted)
    for name in _DIAGNOSTICS:
        lines = [line for source in sources for line in _lines(source, f"{name}.scp")]
        _write(target, f"{name}.scp", f"{name}.weight.ark", lines, weighted)
    info: dict[str, object] = {name: getattr(first, name) for name in _SAME[:-1]}
    info["num_frames"] = sum(source.copies * egs.num_frames for source, egs in zip(sources, folders, strict=True))
    info["egs_per_archive"] = total // num_archives
    if first.ivector_id is not None:
        info["final.ie.id"] = first.ivector_id
    for name, value in (*info.items(), ("num_archives", num_archives)):     # the last: the folder is complete
        write_text(str(target / "info" / name), f"{value}\n")
    for name in ("cmvn_opts", "online_cmvn"):
        if (first.path / name).is_file():
            write_text(str(target / name), (first.path / name).read_text(encoding="utf-8"))
    logger.info("Combined %d folders of examples: %d examples in %d archives", len(sources), total, num_archives)
    return EgsFolder(target)


def _check_same(folders: Sequence[EgsFolder]) -> None:
    for name in _SAME:
        values = {getattr(egs, name): egs.path for egs in folders}
        if len(values) > 1:
            (first, where), (second, there) = list(values.items())[:2]
            raise Nnet3Error(f"the examples in {where} have the {name} {first}, those in {there} {second}",
                             "examples that are trained on together must be made with the same options")


def _lines(source: Source, name: str) -> list[tuple[str, float]]:
    """Lines of a list, with the language in the keys, and their weights."""
    path = source.folder / name
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise FormatError(f"expected a list of examples beside the archive: {error.strerror}", path=str(path),
                          hint="make the examples with --generate-egs-scp=true") from error
    fields = (line.split(None, 1) for line in text.splitlines())
    ending = f"?lang={source.language}" if source.language else ""
    return [(f"{key}{ending} {place}", source.weight) for key, place in fields]


def _write(folder: Path, name: str, weights: str, lines: Sequence[tuple[str, float]], weighted: bool) -> None:
    write_text(str(folder / name), "".join(f"{line}\n" for line, _ in lines))
    if weighted:        # a key that occurs twice has one weight
        by_key = {line.split(None, 1)[0]: weight for line, weight in lines}
        write_text(str(folder / weights), "".join(f"{key} {weight:g}\n" for key, weight in by_key.items()))
