"""What pages of reports share: their style, lists, tables."""
from __future__ import annotations

import html
from collections.abc import Sequence

STYLE = """
body { font: 15px/1.5 Helvetica, Arial, 'DejaVu Sans', sans-serif; color: #22303c; background: #fff;
       max-width: 62rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem }
p.where { color: #66727e; margin-top: 0 }
table { border-collapse: collapse } th, td { padding: .25rem .9rem .25rem 0; text-align: left; vertical-align: top }
th { color: #66727e; font-weight: normal } td.number { text-align: right; font-variant-numeric: tabular-nums }
ul.warnings li { margin: .3rem 0 } figure { margin: 1rem 0; overflow-x: auto } svg { max-width: 100%; height: auto }
thead th { border-bottom: 1px solid #cfd6dc; text-align: right }
"""

# Narrow screens are told that the page is made for them; else they show it at a desktop's width, and tiny.
HEAD = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'


def page(title: str, where: str, parts: Sequence[str]) -> str:
    """Return a page of parts, which are HTML; title and the line below it are text."""
    return "\n".join(["<!DOCTYPE html>",
                      f'<html lang="en"><head>{HEAD}<title>{html.escape(title)}</title>',
                      f"<style>{STYLE}</style></head><body>", f"<h1>{html.escape(title)}</h1>",
                      f'<p class="where">{html.escape(where)}</p>', *parts, "</body></html>\n"])


def list_of(lines: Sequence[str]) -> str:
    """Texts, each an item; a sentence if there are none."""
    if not lines:
        return "<p>None.</p>"
    return '<ul class="warnings">' + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>"


def table_of(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows of texts; all columns but the first are aligned to the right."""
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + f"<th>{html.escape(str(row[0]))}</th>" + "".join(
        f'<td class="number">{html.escape(str(value))}</td>' for value in row[1:]) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
