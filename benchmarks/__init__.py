"""Benchmarks: every figure stands beside a floor or a peer measured in the same run."""
