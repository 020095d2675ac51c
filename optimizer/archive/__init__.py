"""Archives of plans that nothing dominates, and what is shown of them."""
