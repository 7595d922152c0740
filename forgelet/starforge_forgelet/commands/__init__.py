"""The commands of `forgelet`, one module each."""
