"""The context of a step, computed from values alone: what the model sees of a session's history and what it costs."""
