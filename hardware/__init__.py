"""Where a program runs: devices, meshes, timing and the device simulator."""
