"""The OpenAI Responses format."""

from tests.provider.dialect import Dialect
from tests.provider.openai.errors import BAD_JSON, authorize, error, status_error
from tests.provider.responses.encoding import stream, whole
from tests.provider.responses.reading import blocks, read
from tests.provider.responses.rules import check

RESPONSES = Dialect(
    wire="responses",
    overflow="responses",
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

__all__ = ["RESPONSES"]
