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

PARSERS = {"wspecifier": parse_wspecifier, "rspecifier": parse_rspecifier, "rxfilename": parse_rxfilename,
           "wxfilename": parse_wxfilename}
VALID = {
    "wspecifier": [
        Wspecifier("ark:a", "a", None), Wspecifier("ark:", "", None), Wspecifier("ark,t:-", "-", None, binary=False),
        Wspecifier("t,ark:x", "x", None, binary=False), Wspecifier("ark t:x", "x", None, binary=False),
        Wspecifier("t,b,ark,f,nf:x", "x", None), Wspecifier("scp,p:s", None, "s", permissive=True),
        Wspecifier("ark,t,scp,f:a b,c,d", "a b", "c,d", binary=False, flush=True), Wspecifier("ark:a:3", "a:3", None)],
    "rspecifier": [
        Rspecifier("ark:a", "ark", "a"), Rspecifier("scp:a b |", "scp", "a b |"),
        Rspecifier("ark,s,cs:-", "ark", "-", sorted=True, called_sorted=True),
        Rspecifier("o,ns,s,ark,p,np,bg,t,b:", "ark", "", once=True, sorted=True, background=True),
        Rspecifier("p,scp,o,no,s,ns,cs,ncs:x", "scp", "x", permissive=True)],
    "rxfilename": [
        ("", FileName(Medium.STANDARD)), ("-", FileName(Medium.STANDARD)), ("cat a |", FileName(Medium.PIPE, "cat a ")),
        (" cat a |", FileName(Medium.PIPE, " cat a ")), ("a b", FileName(Medium.FILE, "a b")),
        ("a:12", FileName(Medium.OFFSET, "a", 12)), ("a:1:22", FileName(Medium.OFFSET, "a:1", 22)),
        (":12", FileName(Medium.OFFSET, "", 12)), ("a12", FileName(Medium.FILE, "a12")),
        ("b,ark:foo", FileName(Medium.FILE, "b,ark:foo")), ("a:b", FileName(Medium.FILE, "a:b"))],
    "wxfilename": [
        ("", FileName(Medium.STANDARD)), ("-", FileName(Medium.STANDARD)),
        ("|gzip -c >x", FileName(Medium.PIPE, "gzip -c >x")), ("a b", FileName(Medium.FILE, "a b")),
        ("t,ark:foo", FileName(Medium.FILE, "t,ark:foo"))],
}
INVALID = {
    "wspecifier": ["", "ark", "foo", "ark, t:x", " ark:x", "ark,,t:x", "scp,ark:a,b", "ark,ark:x", "scp,scp:x",
                   "ark,s:x", "ark,cs:x", "ark,bg:x", "ark:x ", "ark:x\n", "ark,scp:x", "b:x", ":x", "ark,np:x"],
    "rspecifier": ["", "ark", "ark,scp:a,b", "ark,ark:a", "ark,f:a", "ark,nf:a", "ark,nb:x", "ark, s:x", "s:x",
                   "ark:x ", "arkx:y"],
    "rxfilename": ["|cat", "| cat |", " a", "a ", "a\n", "ark:foo", "scp:foo", "s,ark:x", "a|b", "ark:12"],
    "wxfilename": ["cat |", " a", "a ", "ark,t:foo", "scp,p:foo", "a:12", "a|b"],
}


@pytest.mark.parametrize("kind, expected", [(kind, row) for kind, rows in VALID.items() for row in rows])
def test_valid_names(kind, expected):
    text, expected = (expected.text, expected) if kind.endswith("specifier") else expected
    assert PARSERS[kind](text) == expected


@pytest.mark.parametrize("kind, text", [(kind, text) for kind, texts in INVALID.items() for text in texts])
def test_invalid_names(kind, text):
    with pytest.raises(SpecifierError, match=f"invalid {kind}"):
        PARSERS[kind](text)
    assert not {"wspecifier": is_wspecifier, "rspecifier": is_rspecifier}.get(kind, lambda text: False)(text)


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
