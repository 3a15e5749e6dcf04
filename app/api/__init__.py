"""The HTTP API and the page: turns requests into calls of the services, and values and errors into responses."""
