"""Data sets for PyTorch: archives of examples as minibatches of tensors, for torch modules and torch's own training.

>>> from torch.utils.data import DataLoader
>>> from nnet3py.torch_data import ExampleDataset
>>> data = ExampleDataset(["ark:egs.1.ark", "ark:egs.2.ark"], batch_size=64, shuffle=True)
>>> for batch in DataLoader(data, batch_size=None, num_workers=2):
...     loss = torch.nn.functional.nll_loss(module(batch["input"]), batch["output"][:, 0])

``nnet3py.to_torch`` makes a module of a network. Chain examples are read as well, for ``nnet3py.torch.ChainLoss``:

>>> data = ExampleDataset("ark:cegs.1.ark", batch_size=64)
>>> for batch in DataLoader(data, batch_size=None, num_workers=2):
...     value = loss(module(batch["input"], batch["ivector"]), batch["output"])

Needs the extra ``torch``.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from nnet3py import extras
from nnet3py.egs.chain_example import NnetChainExample, NnetChainSupervision
from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.egs.raw_example import shuffle_with_buffer
from nnet3py.egs.sequence_egs import merge_chain_outputs
from nnet3py.errors import ShapeError, UsageError, within
from nnet3py.formats.general import SparseMatrix, to_dense
from nnet3py.formats.holders import Holder
from nnet3py.io.specifiers import parse_rspecifier
from nnet3py.io.tables import SequentialReader
from nnet3py.io.tokens import TokenReader
from nnet3py.public_names import give_names

if TYPE_CHECKING:
    import torch as _torch
    from torch.utils import data as _data
else:
    _torch = extras.load("torch", "data sets for PyTorch need", "torch")
    _data = extras.load("torch.utils.data", "data sets for PyTorch need", "torch", "torch")

__all__ = ["ExampleDataset", "tensors"]

give_names(__name__, {}, {
    "ChainDataset ChainExampleDataset EgsDataset NnetExampleDataset Dataset":
        "ExampleDataset('ark:cegs.ark') reads chain examples, too",
    "DataLoader": "torch.utils.data.DataLoader(ExampleDataset('ark:egs.ark'), batch_size=None)",
    "collate_fn": "nothing is to be collated: DataLoader(data, batch_size=None)"})

BUFFER = 5000            # examples of the buffer in which an archive is shuffled

Tensors: TypeAlias = "dict[str, _torch.Tensor | NnetChainSupervision]"
Example = NnetExample | NnetChainExample

_CHAIN = f"<{NnetChainExample.TAG}>".encode()


def _read_example(reader: TokenReader) -> Example:
    if not reader.binary:
        reader.skip_whitespace()
    return (NnetChainExample if reader.peek(len(_CHAIN)) == _CHAIN else NnetExample).read(reader)


_EXAMPLE: Holder[Example] = Holder("training example or chain example", _read_example,
                                   lambda writer, value: value.write(writer))


class ExampleDataset(_data.IterableDataset["dict[str, _torch.Tensor | NnetChainSupervision]"]):        # type: ignore[misc]
    """Minibatches of the examples of archives, each a dict of tensors by the names of inputs and outputs.

    Pass it to a ``DataLoader`` with ``batch_size=None``: minibatches are made here, of examples with equal numbers of
    frames and dimensions, as ``nnet3-merge-egs`` and ``nnet3-chain-merge-egs`` do. Several workers share the archives
    if there are enough; otherwise each worker reads all archives and skips the examples of the others.

    Parameters
    ----------
    archives : rspecifier of examples or chain examples, such as ``ark:egs.1.ark``, or a list of these
    batch_size : number of examples of a minibatch; the rest at the end makes smaller ones. None for single examples,
        without the first axis
    shuffle : whether archives are read in another order in each pass, and examples shuffled within a buffer
    buffer : number of examples of that buffer
    seed : seed of the order, which :meth:`set_epoch` changes

    A minibatch has the result of :func:`tensors` for each input and output of the examples. Raises UsageError for
    unusable options, and in iteration the errors of ``nnet3py.read_egs``.
    """

    def __init__(self, archives: str | Sequence[str], batch_size: int | None = 64, *, shuffle: bool = False,
                 buffer: int = BUFFER, seed: int = 0) -> None:
        super().__init__()
        self.archives = [archives] if isinstance(archives, str) else list(archives)
        if not self.archives or not all(isinstance(name, str) for name in self.archives):
            raise UsageError(f"archives={archives!r}: expected an rspecifier, such as 'ark:egs.ark', or several")
        for name in self.archives:
            parse_rspecifier(name)
        if (batch_size is not None and batch_size < 1) or buffer < 1:
            raise UsageError(f"batch_size={batch_size}, buffer={buffer}: expected 1 or more")
        self.batch_size, self.shuffle, self.buffer, self.seed = batch_size, shuffle, buffer, seed
        self._epoch = 0

    def __repr__(self) -> str:
        size = "single examples" if self.batch_size is None else f"minibatches of {self.batch_size}"
        return f"<ExampleDataset: {', '.join(self.archives)}, {size}{', shuffled' if self.shuffle else ''}>"

    def __getitem__(self, place: int) -> NoReturn:
        """Raise UsageError: examples cannot be accessed by number, since archives are read from the beginning."""
        raise UsageError("archives are read in order, not by number", "next(iter(data)); or for batch in data")

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the pass, which together with ``seed`` determines the order."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[Tensors]:
        examples = self._examples()
        if self.batch_size is None:
            yield from map(tensors, examples)
            return
        waiting: dict[Any, list[Tensors]] = {}
        for example in examples:
            kind = _kind(example)
            batch = waiting.setdefault(kind, [])
            batch.append(tensors(example))
            if len(batch) == self.batch_size:
                yield _stacked(waiting.pop(kind))
        for batch in waiting.values():
            yield _stacked(batch)

    def _examples(self) -> Iterator[Example]:
        """Yield the examples that this worker process has to read, in the order of the current pass."""
        worker = _data.get_worker_info()
        number, count = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        by_archive = len(self.archives) >= count
        archives = self.archives[number::count] if by_archive else self.archives
        if self.shuffle:
            order = np.random.default_rng((self.seed, self._epoch)).permutation(len(archives))
            archives = [archives[place] for place in order]

        def read() -> Iterator[Example]:
            for name in archives:
                with SequentialReader(name, _EXAMPLE) as reader:
                    for place, (_, example) in enumerate(reader):
                        if by_archive or place % count == number:
                            yield example
        return shuffle_with_buffer(read(), self.buffer, self.seed + self._epoch) if self.shuffle else read()


def tensors(example: NnetExample | NnetChainExample) -> Tensors:
    """Return the tensors of an example by the names of its inputs and outputs.

    Parameters
    ----------
    example : example of a single sequence, not a minibatch

    Returns
    -------
    Dense matrices become float32 (frames, dim), as do i-vectors, with one frame. Sparse matrices, such as targets,
    become int64 (frames,) if each row has a single element of 1: numbers of classes, as torch's losses take them; else
    float32 (frames, dim). Outputs of chain examples stay objects with supervision and weights of frames, for
    ``nnet3py.torch.ChainLoss``; in minibatches those of all sequences are merged.

    Raises
    ------
    ShapeError : an example of several sequences
    """
    by_name: Tensors = {}
    for io in example.inputs if isinstance(example, NnetChainExample) else example.io:
        with within(f"'{io.name}' of an example"):
            by_name[io.name] = _tensor(io)
    if isinstance(example, NnetChainExample):
        by_name.update((output.name, output) for output in example.outputs)
    return by_name


def _kind(example: Example) -> tuple[Any, ...]:
    """Return a key of an example; examples with equal keys can be in the same minibatch."""
    if isinstance(example, NnetExample):
        return example.structure()
    supervisions = [output.supervision for output in example.outputs]
    return (*example.structure(), *((each.weight, each.label_dim, each.is_end_to_end) for each in supervisions))


def _tensor(io: NnetIo) -> _torch.Tensor:
    if len(io.indexes) and io.indexes[:, 0].any():
        raise ShapeError("it holds several sequences", "give examples that were not merged (nnet3-merge-egs)")
    matrix = io.features
    if isinstance(matrix, SparseMatrix) and (np.diff(matrix.row_starts) == 1).all() and (matrix.values == 1.0).all():
        return _torch.from_numpy(matrix.columns.astype(np.int64))
    return _torch.from_numpy(np.array(to_dense(matrix), dtype=np.float32))


def _stacked(batch: list[Tensors]) -> Tensors:
    together: Tensors = {}
    for name in batch[0]:
        parts = [each[name] for each in batch]
        supervisions = [part for part in parts if isinstance(part, NnetChainSupervision)]
        if supervisions:
            together[name] = merge_chain_outputs(supervisions)
            continue
        matrices = [part for part in parts if isinstance(part, _torch.Tensor)]
        if len({matrix.dtype for matrix in matrices}) > 1:
            raise ShapeError(f"'{name}': some examples have a class in each row and others several, or weights",
                             "read them with batch_size=None, and put them together as you need")
        together[name] = _torch.stack(matrices)
    return together
