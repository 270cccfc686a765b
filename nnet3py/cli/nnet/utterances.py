"""Options, models, i-vectors and outputs of utterances, for all commands that compute networks for utterances."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.option_groups import COMPUTE, OPTIM, Group, compiler_options, optimize_options
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.errors import Nnet3Error, NumericError, UsageError, within
from nnet3py.option_fields import settings_of
from nnet3py.runtime.options import BatchOptions, ComputeOptions

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.io.tables import TableWriter
    from nnet3py.network.nnet import Nnet
    from nnet3py.runtime.compute import UtteranceComputer
    from nnet3py.runtime.cutting import Utterance


SIMPLE: Group = (
    *declared(settings_of(ComputeOptions(acoustic_scale=0.1))),
    option("debug-computation", bool, False, "Log every command that is run"),
    *OPTIM, *COMPUTE,
)

IVEC: Group = (
    option("ivectors", str, "", "Rspecifier of iVectors, one vector per utterance (or per speaker, with --utt2spk)"),
    option("utt2spk", str, "", "Rspecifier of the utterance-to-speaker map, for --ivectors per speaker"),
    option("online-ivectors", str, "", "Rspecifier of iVectors estimated online, one matrix per utterance"),
    option("online-ivector-period", int, 0, "Frames between the rows of --online-ivectors", least=1),
)


def model_for_test(path: str, use_priors: bool) -> tuple[Nnet, np.ndarray | None]:
    """Read a raw network or an acoustic model; return the network, ready for inference, and priors or None.

    Batch normalization and dropout are in test mode, and components are merged where possible. With ``use_priors`` the
    file must be an acoustic model, whose priors, float32 (pdfs,), are returned.
    """
    from nnet3py.acoustic_model import read_model
    from nnet3py.network.inference import prepare_for_test
    from nnet3py.network.model_file import read_nnet

    if use_priors:
        model = read_model(path)
        return prepare_for_test(model.nnet), model.priors
    return prepare_for_test(read_nnet(path)), None


def compute_options(options: Options) -> ComputeOptions:
    """Return the options of computing utterances, from the group ``SIMPLE``."""
    return fields_from(options, ComputeOptions(
        optimize=optimize_options(options), compiler=compiler_options(options),
        debug=options["computation.debug"] or options.debug_computation))


def check_ivector_options(options: Options) -> None:
    """Raise UsageError for options of the ``IVEC`` group that do not go together."""
    if options.ivectors and options.online_ivectors:
        raise UsageError("--ivectors and --online-ivectors cannot both be given")
    if options.online_ivectors and not options.online_ivector_period:
        raise UsageError("--online-ivectors needs --online-ivector-period",
                         "give the number of frames between online i-vectors")


class IvectorSource:
    """Tables of i-vectors that the options of the group ``IVEC`` name, looked up by utterance."""

    def __init__(self, options: Options) -> None:
        from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR
        from nnet3py.io.tables import RandomAccessMappedReader, RandomAccessReader

        self._constant: Any = None
        self._online: Any = None
        if options.ivectors:
            self._constant = RandomAccessMappedReader(options.ivectors, options.utt2spk, FLOAT_VECTOR)
        if options.online_ivectors:
            self._online = RandomAccessReader(options.online_ivectors, FLOAT_MATRIX)

    def __enter__(self) -> IvectorSource:
        return self

    def __exit__(self, *exception: Any) -> None:
        for reader in (self._constant, self._online):
            if reader is not None:
                reader.close()

    def find(self, key: str) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return the constant i-vector, (dim,), and the online i-vectors, (rows, dim), of an utterance.

        Each is None if the options name no such table. Raises KeyError with "iVector" or "online iVector" if the table
        lacks the utterance.
        """
        sources = []
        for reader, what in ((self._constant, "iVector"), (self._online, "online iVector")):
            if reader is not None and key not in reader:
                raise KeyError(what)
            sources.append(reader[key] if reader is not None else None)
        return sources[0], sources[1]


def compute_one(computer: UtteranceComputer, ivectors: IvectorSource, key: str, feats: np.ndarray,
                online_ivector_period: int) -> np.ndarray | None:
    """Compute the output of an utterance, float32 (frames, dim); None, with a warning, if it cannot be computed."""
    if len(feats) == 0:
        log.warning(f"Zero-length utterance: {key}")
        return None
    try:
        with within(f"utterance {key}"):
            ivector, online_ivectors = ivectors.find(key)
            return computer.compute(feats, ivector, online_ivectors, online_ivector_period)
    except KeyError as error:
        log.warning(f"No {error.args[0]} available for utterance {key}")
    except NumericError as error:
        log.warning(f"Skipping {error}")
    return None


BATCH = declared(settings_of(BatchOptions))


class MissingData(Nnet3Error):
    """Error for an utterance without features or i-vectors. The message is the whole warning."""


class UtteranceSource:
    """Iterable of the utterances of a table of features; it counts utterances and frames.

    An utterance with missing data is yielded with the error as attribute, so that warnings keep the utterances' order.

    Parameters
    ----------
    features : iterable of keys and feature matrices
    utterance : function of key and features (not empty) that makes an utterance, or raises MissingData

    Attributes
    ----------
    num_read : utterances so far
    num_frames : frames so far of utterances without missing data
    """

    def __init__(self, features: Any, utterance: Callable[[str, np.ndarray], Utterance]) -> None:
        self._features, self._utterance = features, utterance
        self.num_read = self.num_frames = 0

    def __iter__(self) -> Iterator[Utterance]:
        from nnet3py.runtime.cutting import Utterance

        for key, feats in self._features:
            self.num_read += 1
            try:
                if len(feats) == 0:
                    raise MissingData(f"Zero-length utterance: {key}")
                utterance = self._utterance(key, feats)
            except MissingData as error:
                yield Utterance(key, feats, error=error)
                continue
            self.num_frames += len(feats)
            yield utterance


def with_ivectors(features: Any, ivectors: IvectorSource) -> UtteranceSource:
    """Return a source of utterances, each with its features and i-vectors."""
    from nnet3py.runtime.cutting import Utterance

    def utterance(key: str, feats: np.ndarray) -> Utterance:
        try:
            with within(f"utterance {key}"):
                return Utterance(key, feats, *ivectors.find(key))
        except KeyError as error:
            raise MissingData(f"No {error.args[0]} available for utterance {key}") from None

    return UtteranceSource(features, utterance)


def warn_of(key: str, error: Nnet3Error) -> None:
    """Log a warning about an utterance that was not computed."""
    log.warning(str(error) if isinstance(error, MissingData) else f"Skipping utterance {key}: {error}")


def write_outputs(writer: TableWriter[np.ndarray], outputs: Iterable[tuple[str, np.ndarray | Nnet3Error]],
                  apply_exp: bool = False) -> int:
    """Write the outputs of utterances, or their exponentials; return the number written.

    For an utterance with an error in place of the output a warning is logged.
    """
    import numpy as np

    num_written = 0
    for key, output in outputs:
        if not isinstance(output, np.ndarray):
            warn_of(key, output)
            continue
        writer.write(key, np.exp(output) if apply_exp else output)
        num_written += 1
    return num_written
