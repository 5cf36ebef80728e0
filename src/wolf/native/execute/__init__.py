"""Compile LLVM IR, cache it, and call it on rows or single measurements."""
