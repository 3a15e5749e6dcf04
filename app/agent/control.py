"""Control messages: messages added by Palimpsest, in neither the user's nor the model's name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile

from app.context.prompts import ControlKind, control_text
from app.context.tokens import PER_MESSAGE, estimate_text
from app.messages import Message, Role, TextPart, new_id, now


def control_message(kind: ControlKind) -> Message:
    """A control message that has no seq yet."""
    text = control_text(kind)
    part = TextPart(id=new_id(), index=0, text=text, tokens=estimate_text(text))
    tokens = PER_MESSAGE + part.tokens
    return Message(id=new_id(), seq=0, role=Role.CONTROL, parts=(part,), tokens=tokens, created_at=now())


def is_last_word(message: Message) -> bool:
    """Whether this tells the model that the run's last step follows."""
    return message.role is Role.CONTROL and message.text in _LAST_STEPS


def had_last_word(history: Sequence[Message], began: datetime) -> bool:
    """Whether the run that began at `began` had reached its last step."""
    own = takewhile(lambda message: message.created_at >= began, reversed(history))
    return any(map(is_last_word, own))


_LAST_STEPS = (control_text("last_step"), control_text("last_step_of_session"))
