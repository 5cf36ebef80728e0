"""From the graph to LLVM assembly or C."""
