"""What a program is: index spaces, graphs, operators, sharding, reference evaluation, importers."""
