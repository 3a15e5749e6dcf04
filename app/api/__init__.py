"""The HTTP door: turns requests into calls of the runtime's services, and its values and errors into answers."""

from app.api.main import ApiConfig, create_app

__all__ = ["ApiConfig", "create_app"]
