"""What a plan costs: objectives, memory and schedule."""
