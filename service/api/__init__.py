"""The HTTP API: one file per noun, put together in `app.py`. It never computes; workers and the desk do."""

from tapestry.service.api.app import create_app

__all__ = ["create_app"]
