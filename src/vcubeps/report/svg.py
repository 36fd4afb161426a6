"""A drawn SVG → one that can stand inside a page beside others."""

from __future__ import annotations

import re
from html import escape

_OPENING = re.compile(r"<svg\b[^>]*>")
_VIEW_BOX = re.compile(r'viewBox="([^"]*)"')
_LEFT_OUT = re.compile(r"<metadata>.*?</metadata>|<style\b[^>]*>.*?</style>", re.DOTALL)


def inlined(svg: str, prefix: str, label: str) -> str:
    """Its identifiers begin with the prefix, it scales with its place, and it says what it is.

    Styles for the whole document and the addresses of namespaces go: HTML needs neither.

    >>> inlined('<?xml?><svg xmlns="n" viewBox="0 0 9 6"><path id="a"/><use xlink:href="#a"/></svg>', "f-", "A & B")
    '<svg viewBox="0 0 9 6" role="img" aria-label="A &amp; B"><path id="f-a"/><use href="#f-a"/></svg>'
    """
    opening = _OPENING.search(svg)
    view_box = _VIEW_BOX.search(svg)
    assert opening is not None
    assert view_box is not None
    body = _LEFT_OUT.sub("", svg[opening.end() :])
    body = body.replace("xlink:href=", "href=")
    body = re.sub(r'\bid="', f'id="{prefix}', body)
    body = re.sub(r'href="#', f'href="#{prefix}', body)
    body = body.replace("url(#", f"url(#{prefix}")
    return f'<svg viewBox="{view_box[1]}" role="img" aria-label="{escape(label)}">{body.strip()}'
