"""One example of everything in the OpenAPI document, as values of the documented types, so that none can go stale.
`records` holds the shared records; requests, responses and events each have a file, and problems are in
`app/api/problems.py`."""

from app.api.examples.answers import ANSWERS as ANSWERS
from app.api.examples.answers import ANSWERS_OF as ANSWERS_OF
from app.api.examples.events import EVENTS as EVENTS
from app.api.examples.events import stream_items as stream_items
from app.api.examples.events import type_of as type_of
from app.api.examples.records import AT as AT
from app.api.examples.records import SESSION as SESSION
from app.api.examples.requests import REQUESTS as REQUESTS
