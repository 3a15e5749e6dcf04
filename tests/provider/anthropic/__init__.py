"""The Anthropic Messages format."""

from tests.provider.anthropic.encoding import stream, whole
from tests.provider.anthropic.errors import BAD_JSON, authorize, error, status_error
from tests.provider.anthropic.reading import blocks, read
from tests.provider.anthropic.rules import check
from tests.provider.dialect import Dialect

ANTHROPIC = Dialect(
    wire="anthropic",
    overflow="anthropic",
    explicit_cache=True,
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

__all__ = ["ANTHROPIC"]
