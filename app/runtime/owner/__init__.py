"""The owner of one running session: its task, its state and everything that it hands to the agent."""
