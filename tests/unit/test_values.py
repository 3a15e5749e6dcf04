from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import ValidationError

from app.messages import Value


class Seen(Value):
    name: str
    size: int
    note: str = "none"


@dataclass
class Stored:
    name: str = "a"
    size: int = 3
    secret: str = "x"


def test_a_view_takes_the_fields_that_it_shares_with_its_source() -> None:
    assert Seen.of(Stored()) == Seen(name="a", size=3)


def test_given_fields_replace_those_of_the_source() -> None:
    assert Seen.of(Stored(), size=4, note="changed") == Seen(name="a", size=4, note="changed")


def test_a_field_that_neither_has_is_missing() -> None:
    with pytest.raises(ValidationError, match="size"):
        Seen.of(None, name="a")
