"""Noise models of other papers, for comparison."""
