"""The HTTP API: one file per noun, combined in `app.py`. It never computes; workers and the pool do."""
