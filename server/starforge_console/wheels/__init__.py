"""What machines install forgelet from: the release's lock, the wheelhouse, its index and the install script."""
