"""Tables of shardings: where a plan places a program's tensors, for those who keep their program and compiler."""
