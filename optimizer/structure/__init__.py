"""Search over rewritten programs: rules, presearch on one device, structural moves."""
