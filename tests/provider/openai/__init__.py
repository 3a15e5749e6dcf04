"""The OpenAI Chat Completions format."""

from tests.provider.dialect import Dialect
from tests.provider.openai.encoding import stream, whole
from tests.provider.openai.errors import BAD_JSON, authorize, error, status_error
from tests.provider.openai.reading import blocks, read
from tests.provider.openai.rules import check

OPENAI = Dialect(
    wire="openai",
    overflow="openai",
    explicit_cache=False,
    bad_json=BAD_JSON,
    authorize=authorize,
    check=check,
    read=read,
    blocks=blocks,
    error=error,
    status_error=status_error,
    stream=stream,
    whole=whole,
)

__all__ = ["OPENAI"]
