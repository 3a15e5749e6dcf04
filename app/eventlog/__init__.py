"""The event log and its readers: `log` writes and replays durable events, `bus` notifies readers at once, and `reader`
joins both into one stream without gaps or duplicates."""

from app.eventlog.bus import Bus
from app.eventlog.log import EventLog
from app.eventlog.reader import follow, follow_all

__all__ = ["Bus", "EventLog", "follow", "follow_all"]
