"""The agent without storage: its interrupt, its stream processor, its tool calls."""
