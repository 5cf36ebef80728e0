"""Noise models of other papers, implemented for comparison."""
