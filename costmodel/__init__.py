"""Cost model of plans: objectives, memory and schedule."""

if not __name__.startswith("tapestry."):
    raise ImportError("import tapestry.costmodel: imported as costmodel, its classes would exist twice")
