"""The HTTP API: turns requests into calls of the runtime's services, and their values and errors into responses."""

from app.api.main import ApiConfig, create_app

__all__ = ["ApiConfig", "create_app"]
