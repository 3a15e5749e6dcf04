"""The runtime: owns running sessions, commits what happens in them, and serves everything that the API offers."""
