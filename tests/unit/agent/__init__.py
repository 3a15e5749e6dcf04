"""The agent without storage: its interrupt, stream processor and tool calls."""
