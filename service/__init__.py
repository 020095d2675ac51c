"""The service: command line and store."""

if not __name__.startswith("tapestry."):
    raise ImportError("import tapestry.service: imported as service, its classes would exist twice")
