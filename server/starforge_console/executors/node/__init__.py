"""The fleet kind `node`: machines that each run a forgelet."""
