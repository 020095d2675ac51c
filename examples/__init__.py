"""Real models, and short programs that use Tapestry from Python."""

if not __name__.startswith("tapestry."):
    raise ImportError("import tapestry.examples: imported as examples, its classes would exist twice")
