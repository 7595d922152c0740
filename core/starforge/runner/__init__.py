"""The runner: what supervises a training process inside a foreign image. Standard library, Python 3.8 and newer."""
