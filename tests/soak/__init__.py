"""The soak: a service that is killed, stopped, cut off and disturbed while people use it, and what must hold then."""
