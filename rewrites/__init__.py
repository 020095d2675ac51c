"""How a program may change: rules and moves."""
