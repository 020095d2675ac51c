"""The HTTP API: one file per noun, combined in `app.py`. It never computes; workers and the pool do."""

from tapestry.service.api.app import create_app

__all__ = ["create_app"]
