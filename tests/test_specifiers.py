"""Table specifiers, file names and ranges against the documented grammar."""
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnet3py.errors import SpecifierError
from nnet3py.io.specifiers import (
    FileName,
    Medium,
    Rspecifier,
    Wspecifier,
    is_rspecifier,
    is_token,
    is_wspecifier,
    parse_range,
    parse_rspecifier,
    parse_rxfilename,
    parse_script_line,
    parse_wspecifier,
    parse_wxfilename,
    split_range,
)


@pytest.mark.parametrize("text, expected", [
    ("ark:a", Wspecifier("ark:a", "a", None)),
    ("ark:", Wspecifier("ark:", "", None)),
    ("ark,t:-", Wspecifier("ark,t:-", "-", None, binary=False)),
    ("t,ark:x", Wspecifier("t,ark:x", "x", None, binary=False)),
    ("ark t:x", Wspecifier("ark t:x", "x", None, binary=False)),
    ("t,b,ark,f,nf:x", Wspecifier("t,b,ark,f,nf:x", "x", None)),
    ("scp,p:s", Wspecifier("scp,p:s", None, "s", permissive=True)),
    ("ark,t,scp,f:a b,c,d", Wspecifier("ark,t,scp,f:a b,c,d", "a b", "c,d", binary=False, flush=True)),
    ("ark:a:3", Wspecifier("ark:a:3", "a:3", None)),
])
def test_valid_wspecifiers(text, expected):
    assert parse_wspecifier(text) == expected


@pytest.mark.parametrize("text", [
    "", "ark", "foo", "ark, t:x", " ark:x", "ark,,t:x", "scp,ark:a,b", "ark,ark:x", "scp,scp:x", "ark,s:x", "ark,cs:x",
    "ark,bg:x", "ark:x ", "ark:x\n", "ark,scp:x", "b:x", ":x", "ark,np:x"])
def test_invalid_wspecifiers(text):
    assert not is_wspecifier(text)
    with pytest.raises(SpecifierError, match="invalid wspecifier"):
        parse_wspecifier(text)


@pytest.mark.parametrize("text, expected", [
    ("ark:a", Rspecifier("ark:a", "ark", "a")),
    ("scp:a b |", Rspecifier("scp:a b |", "scp", "a b |")),
    ("ark,s,cs:-", Rspecifier("ark,s,cs:-", "ark", "-", sorted=True, called_sorted=True)),
    ("o,ns,s,ark,p,np,bg,t,b:",
     Rspecifier("o,ns,s,ark,p,np,bg,t,b:", "ark", "", once=True, sorted=True, background=True)),
    ("p,scp,o,no,s,ns,cs,ncs:x", Rspecifier("p,scp,o,no,s,ns,cs,ncs:x", "scp", "x", permissive=True)),
])
def test_valid_rspecifiers(text, expected):
    assert parse_rspecifier(text) == expected


@pytest.mark.parametrize("text", [
    "", "ark", "ark,scp:a,b", "ark,ark:a", "ark,f:a", "ark,nf:a", "ark,nb:x", "ark, s:x", "s:x", "ark:x ", "arkx:y"])
def test_invalid_rspecifiers(text):
    assert not is_rspecifier(text)
    with pytest.raises(SpecifierError, match="invalid rspecifier"):
        parse_rspecifier(text)


@pytest.mark.parametrize("text, expected", [
    ("", FileName(Medium.STANDARD)),
    ("-", FileName(Medium.STANDARD)),
    ("cat a |", FileName(Medium.PIPE, "cat a ")),
    (" cat a |", FileName(Medium.PIPE, " cat a ")),
    ("a b", FileName(Medium.FILE, "a b")),
    ("a:12", FileName(Medium.OFFSET, "a", 12)),
    ("a:1:22", FileName(Medium.OFFSET, "a:1", 22)),
    (":12", FileName(Medium.OFFSET, "", 12)),
    ("a12", FileName(Medium.FILE, "a12")),
    ("b,ark:foo", FileName(Medium.FILE, "b,ark:foo")),
    ("a:b", FileName(Medium.FILE, "a:b")),
])
def test_rxfilenames(text, expected):
    assert parse_rxfilename(text) == expected


@pytest.mark.parametrize("text", [
    "|cat", "| cat |", " a", "a ", "a\n", "ark:foo", "scp:foo", "s,ark:x", "a|b", "ark:12"])
def test_invalid_rxfilenames(text):
    with pytest.raises(SpecifierError, match="invalid rxfilename"):
        parse_rxfilename(text)


@pytest.mark.parametrize("text, expected", [
    ("", FileName(Medium.STANDARD)), ("-", FileName(Medium.STANDARD)),
    ("|gzip -c >x", FileName(Medium.PIPE, "gzip -c >x")),
    ("a b", FileName(Medium.FILE, "a b")), ("t,ark:foo", FileName(Medium.FILE, "t,ark:foo")),
])
def test_wxfilenames(text, expected):
    assert parse_wxfilename(text) == expected


@pytest.mark.parametrize("text", ["cat |", " a", "a ", "ark,t:foo", "scp,p:foo", "a:12", "a|b"])
def test_invalid_wxfilenames(text):
    with pytest.raises(SpecifierError, match="invalid wxfilename"):
        parse_wxfilename(text)


def test_script_lines():
    assert parse_script_line("  utt1 \t foo.ark:12[0:3]  \r\n") == ("utt1", "foo.ark:12[0:3]")
    assert parse_script_line("utt1 gunzip -c x | \n") == ("utt1", "gunzip -c x |")
    assert parse_script_line("utt1\n") is None
    assert parse_script_line(" \n") is None
    assert parse_script_line("a\u00a0b c") == ("a\u00a0b", "c")      # a no-break space is part of a key


def test_ranges():
    assert split_range("foo.ark:123[0:9]") == ("foo.ark:123", "0:9")
    assert split_range("foo.ark:123") == ("foo.ark:123", None)
    assert parse_range("0:9", 2) == [(0, 9), None]
    assert parse_range(":,3:3", 2) == [None, (3, 3)]
    assert parse_range(":", 1) == [None]
    for text in ("foo[1][2]", "[0:1]", "foo[]"):
        with pytest.raises(SpecifierError):
            split_range(text)
    for text in ("5", "0:", ":5", "0:1,", "3:2", "-1:2", "0:1,0:1,0:1", "", "a:b"):
        with pytest.raises(SpecifierError):
            parse_range(text, 2)
    with pytest.raises(SpecifierError):
        parse_range("0:1,0:1", 1)


def test_keys():
    assert is_token("utt-1") and is_token("é")
    assert not any(is_token(key) for key in ("", "a b", "a\tb", "a\x00", "\x7f"))


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="arkscpbt,of: |-x1[]", max_size=20))
def test_any_text_is_parsed_or_refused(text):
    for parse in (parse_rspecifier, parse_wspecifier, parse_rxfilename, parse_wxfilename, split_range):
        try:
            parse(text)
        except SpecifierError as error:
            assert str(error)
