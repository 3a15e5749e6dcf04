"""A model's Markdown as lines for a terminal, while it is being written.

Imported only for a terminal: Rich takes a tenth of a second to load.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from app.cli.screen import visible

MAX_BLOCK_CHARS = 20_000
"""Longest block that is rendered as Markdown; a longer one is shown as it was written. The open block is rendered again
several times a second."""
_CODE_THEME = "ansi_dark"
"""Colors of the terminal's own palette, readable on light and dark backgrounds."""
_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "none",
        "markdown.block_quote": "italic",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold italic",
        "markdown.list": "none",
        "markdown.item.number": "bold",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
        "markdown.link": "none",
        "markdown.link_url": "dim",
    }
)
# HTML would not be shown at all, and an image without its address.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("image")


class _LeftHeading(Heading):
    LEVEL_ALIGN = {}  # noqa: RUF012 - the name is Rich's; it centers the largest heading


class _IndentedCode(CodeBlock):
    """Code without the empty lines that Rich puts around it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 2))


class _Rendered(Markdown):
    """Parsed Markdown. Addresses of links are printed, so that no text can hide where it leads."""

    elements = {  # noqa: RUF012 - the name is Rich's
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _IndentedCode,
        "code_block": _IndentedCode,
    }

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__("", code_theme=_CODE_THEME, hyperlinks=False)
        self.parsed = tokens


def closed_part(text: str) -> int:
    """How many characters of a Markdown text are complete top-level blocks, which later text cannot change. The last
    block and an incomplete last line never are."""
    whole = text.rfind("\n") + 1
    if whole > MAX_BLOCK_CHARS:
        return whole
    lines = [
        token.map[0] for token in _PARSER.parse(text[:whole]) if token.level == 0 and token.map and token.nesting >= 0
    ]
    if len(lines) < 2:
        return 0
    start = 0
    for _ in range(lines[-1]):
        start = text.index("\n", start) + 1
    return start


def markdown_lines(text: str, width: int) -> list[str]:
    """Markdown as lines of at most `width` cells, with colors as their only escape sequences."""
    if len(text) > MAX_BLOCK_CHARS:
        return text_lines(Text(visible(text)), width)
    tokens = _PARSER.parse(visible(text))
    for token in _all_of(tokens):
        # Character references can stand for any character, so the text is checked again after they are resolved.
        token.content = visible(token.content)
        if token.type == "softbreak":
            token.type = "hardbreak"  # models end lines where they should end
    return text_lines(_Rendered(tokens), width)


def _all_of(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        if "href" in token.attrs:
            token.attrs["href"] = visible(str(token.attrs["href"]))
        yield token
        yield from _all_of(token.children or [])


def text_lines(content: RenderableType, width: int) -> list[str]:
    """A Rich text as lines of at most `width` cells, wrapped between words."""
    console = Console(
        file=StringIO(), force_terminal=True, width=width, theme=_THEME, highlight=False, legacy_windows=False
    )
    with console.capture() as captured:
        console.print(content, end="")
    return [line.rstrip() for line in captured.get().strip("\n").split("\n")]
