"""Rewriting by equality saturation: our rules in egglog's e-graph, extracted greedily and by integer programming."""
