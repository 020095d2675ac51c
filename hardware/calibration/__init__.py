"""Measurement of the machine at hand: programs are run by PyTorch and timed, and a device file is fitted to them.

`runs` times programs in a process of its own; `probes` are the programs that calibration times; `measured` has what was
measured on devices of the catalog. The command line, benchmarks and the page of devices import this package.
"""
