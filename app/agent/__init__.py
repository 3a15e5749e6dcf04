"""The agent: a loop of steps, each one model call and the tool calls that it asked for."""
