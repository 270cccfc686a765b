"""Config lines: where words, keys and values end, typed reads, and what the errors say."""
from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnet3py.config_line import ConfigLine, is_valid_name, parse_config_lines
from nnet3py.errors import ConfigError

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.\-]{0,8}", fullmatch=True)
# Values that need no quotes: no '=', '#', quotes, or newline, and no blank at an end.
VALUES = st.from_regex(r"[A-Za-z0-9(),.:\-]([A-Za-z0-9(),.: \-]{0,12}[A-Za-z0-9(),.:\-])?", fullmatch=True)


def test_a_line_of_a_network_config() -> None:
    line = ConfigLine("  component-node name=a component=b\tinput=Append(a, Offset(b, -1))  dim=3 \t")
    assert line.first_token == "component-node"
    assert line.get_string("input") == "Append(a, Offset(b, -1))"
    assert (line.get_string("name"), line.get_int("dim")) == ("a", 3)
    assert line.unused_values() == "component=b"


def test_comments_blank_lines_and_numbers() -> None:
    lines = parse_config_lines("# nothing\n\na x=1 # y=2\n   \t\r\nb z=p # q\n", "f.config")
    assert [(line.first_token, line.number) for line in lines] == [("a", 3), ("b", 5)]
    assert not lines[0].has("y")
    assert lines[1].get_string("z") == "p"


def test_a_comment_begins_inside_quotes_too() -> None:
    with pytest.raises(ConfigError, match="Error parsing config line: a x='p"):
        parse_config_lines("a x='p # q'")


@pytest.mark.parametrize(("text", "key", "value"), [
    ("a x='p q=r' y=1", "x", "p q=r"),
    ('a x="it\'s" y=1', "x", "it's"),
    ("a x=p=q y=1", "x", "p=q y=1"),          # no blank between the equal signs: the value goes on to the end
    ("a x= y=1", "x", "y=1"),                 # the blank directly after '=' ends nothing
    ("a x='' y=1", "x", ""),
    ("x=1 y=2", "y", "2"),
    ("a x=1 x=2", "x", "1"),                  # the first one counts
])
def test_where_values_end(text: str, key: str, value: str) -> None:
    assert ConfigLine(text).get_string(key) == value


def test_a_line_that_begins_with_a_pair_has_no_first_token() -> None:
    assert ConfigLine("x=1 y=2").first_token == ""


@pytest.mark.parametrize("text", ["a x", "a x =1", "a 1x=2", "a =2", "a x='p", "a! x=1", "-a x=1", 'a x="p" q'])
def test_what_cannot_be_parsed(text: str) -> None:
    with pytest.raises(ConfigError, match="Error parsing config line: "):
        ConfigLine(text)


@pytest.mark.parametrize(("text", "expected"), [("-12", -12), ("+7", 7), ("007", 7), ("2147483647", 2147483647)])
def test_integers(text: str, expected: int) -> None:
    assert ConfigLine(f"a x={text}").get_int("x") == expected


@pytest.mark.parametrize("text", ["1.0", "", "x", "1_000", "2147483648", "-2147483649", "1 2", "9" * 5000, "１"])
def test_what_is_no_integer(text: str) -> None:
    line = ConfigLine(f"a x='{text}'")
    with pytest.raises(ConfigError, match="Unused values 'x="):
        line.get_int("x", 3)


@pytest.mark.parametrize(("text", "expected"), [("1", 1.0), ("-.5", -0.5), ("1e-3", 1e-3), ("2.", 2.0),
                                                ("inf", math.inf)])
def test_reals(text: str, expected: float) -> None:
    assert ConfigLine(f"a x={text}").get_float("x") == expected


@pytest.mark.parametrize("text", ["nan", "1e39", "-1e300"])
def test_what_a_float32_cannot_hold_is_refused(text):
    with pytest.raises(ConfigError, match="a number that a 32-bit float can hold"):
        ConfigLine(f"a={text}").get_float("a")


@pytest.mark.parametrize("text", ["1,5", "", "one", "1_0", "0x10", "1e"])
def test_what_is_no_real(text: str) -> None:
    with pytest.raises(ConfigError, match="must be a number"):
        ConfigLine(f"a x='{text}'").get_float("x")


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("T", True), ("false", False), ("F", False),
                                                ("tru", True)])
def test_booleans_look_at_the_first_letter(text: str, expected: bool) -> None:
    assert ConfigLine(f"a x={text}").get_bool("x") is expected


@pytest.mark.parametrize("text", ["1", "yes", ""])
def test_what_is_no_boolean(text: str) -> None:
    with pytest.raises(ConfigError, match="true or false"):
        ConfigLine(f"a x='{text}'").get_bool("x")


def test_lists_of_integers() -> None:
    assert ConfigLine("a x=-1,0:1").get_ints("x") == [-1, 0, 1]
    assert ConfigLine("a x=''").get_ints("x") == []
    assert ConfigLine("a y=1").get_ints("x", [4]) == [4]
    with pytest.raises(ConfigError, match="list of integers"):
        ConfigLine("a x=1,,2").get_ints("x")


def test_unused_keys_are_named_with_place() -> None:
    line = parse_config_lines("\ninput-node name=a dmi=3 b=4", "net.config")[0]
    line.get_string("name")
    with pytest.raises(ConfigError) as caught:
        line.check_all_used()
    assert "Unused values 'b=4 dmi=3' in config line: input-node name=a dmi=3 b=4" in str(caught.value)
    assert "[net.config, line 2]" in str(caught.value)


def test_a_missing_key_without_default_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'learning-rat'"):
        ConfigLine("a learning-rat=1").get_float("learning-rate")
    assert ConfigLine("a y=1").get_float("x", 0.5) == 0.5


@settings(max_examples=40)
@given(NAMES, st.dictionaries(NAMES, VALUES, max_size=4))
def test_any_names_and_values_come_back(first: str, values: dict[str, str]) -> None:
    line = ConfigLine(" ".join([first, *(f"{key}={value}" for key, value in values.items())]))
    assert line.first_token == first
    assert {key: line.get_string(key) for key in values} == values
    line.check_all_used()


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        lines = parse_config_lines(text)
    except ConfigError:
        return
    assert all(line.first_token == "" or is_valid_name(line.first_token) for line in lines)
