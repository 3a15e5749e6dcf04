"""What a person types while a session is followed: messages for it, and answers to questions."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from app.cli.line_editor import PASTE_OFF, PASTE_ON, LineEditor

_PIECE_BYTES = 64 * 1024


class TerminalInput:
    """Reads lines from standard input; each is the answer to the open question, or passed to `on_line` if not blank.

    With `edited`, the terminal neither echoes nor edits: `line` is what has been typed so far."""

    def __init__(self, on_line: Callable[[str], None], *, edited: bool) -> None:
        self._on_line = on_line
        self.edited = edited
        self._editor = LineEditor()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._answer: asyncio.Future[str] | None = None
        self._before: list[Any] | None = None
        self._ended = False
        self.question = ""

    @property
    def line(self) -> str:
        return self._editor.text

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Reads while the context lasts."""
        loop = asyncio.get_running_loop()
        if self.edited:
            self._before = termios.tcgetattr(0)
            tty.setcbreak(0, termios.TCSADRAIN)
            sys.stdout.write(PASTE_ON)
        loop.add_reader(0, self._read)
        try:
            yield
        finally:
            loop.remove_reader(0)
            self.restore()

    def restore(self) -> None:
        """Restores the terminal."""
        if self._before is not None:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._before)
            self._before = None
            sys.stdout.write(PASTE_OFF)
            sys.stdout.flush()

    @contextmanager
    def asking(self, question: str) -> Iterator[asyncio.Future[str]]:
        """Makes the next line, with its line break, the answer to a question; it is empty if the input has ended.

        What was typed before is not an answer: an unfinished line is put back afterward, and the rest is discarded."""
        with suppress(termios.error):
            termios.tcflush(0, termios.TCIFLUSH)
        kept, self._editor.text = self._editor.text, ""
        self.question = question
        answer = self._answer = asyncio.get_running_loop().create_future()
        if self._ended:
            answer.set_result("")
        try:
            yield answer
        finally:
            self._answer, self.question = None, ""
            self._editor.text = kept

    def _read(self) -> None:
        try:
            piece = os.read(0, _PIECE_BYTES)
        except OSError:  # the terminal is gone
            piece = b""
        if not piece:
            asyncio.get_running_loop().remove_reader(0)
            self._ended = True
            self._answer_with("")
        for line in self._editor.feed(self._decoder.decode(piece)):
            if self._answer is not None:
                self._answer_with(f"{line}\n")
            elif line.strip():
                self._on_line(line)

    def _answer_with(self, text: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(text)


def can_be_read() -> bool:
    """Whether standard input is a terminal that this process may use: in the background, a shell would stop it."""
    if not sys.stdin.isatty():
        return False
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:  # a terminal that does not control this process
        return True
