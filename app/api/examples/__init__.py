"""One example of everything that the OpenAPI document describes: values of the types that it documents, so that none
can go stale. The problems have their own catalog in `app/api/problems.py`."""

from app.api.examples.answers import ANSWERS as ANSWERS
from app.api.examples.answers import ANSWERS_OF as ANSWERS_OF
from app.api.examples.events import EVENTS as EVENTS
from app.api.examples.events import stream_items as stream_items
from app.api.examples.records import AT as AT
from app.api.examples.records import SESSION as SESSION
from app.api.examples.requests import REQUESTS as REQUESTS
