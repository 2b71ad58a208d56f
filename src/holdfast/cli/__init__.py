"""The command line: one module per noun, one entry point."""
