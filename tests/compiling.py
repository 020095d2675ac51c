"""A script that compiles the loops of the search once, so that the first processes of the tests need not each do it.

    python -m tests.compiling

A small search calls all of them. What is compiled is kept (`costmodel.compiled`) until their sources change, so
that this takes a few minutes the first time and seconds afterwards.
"""

from tests.optimizer.searches import search

if __name__ == "__main__":
    search(evaluations=500)
