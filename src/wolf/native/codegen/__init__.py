"""From the graph to LLVM IR or C."""
