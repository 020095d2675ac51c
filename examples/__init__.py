"""Real models, and short programs that use Tapestry from Python."""
