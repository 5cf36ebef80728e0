"""The paper's experiments: one file per artefact, run and judged by one command."""
