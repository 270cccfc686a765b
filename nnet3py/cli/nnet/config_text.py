"""The network config files that commands take."""
from __future__ import annotations

from nnet3py.errors import ConfigError


def read_config_text(path: str) -> str:
    """The text of a config file. Raises ConfigError if it is not text."""
    from nnet3py.io.streams import open_input

    with open_input(path) as stream:
        data = stream.without_mark().read()
    try:
        if data.startswith(b"\0B"):
            raise ConfigError(f"expected a config file, found binary data in {path}", "are the arguments in order?")
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the config file {path} is not UTF-8 text (byte {error.start})") from None
