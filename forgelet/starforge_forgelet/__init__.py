"""forgelet: the daemon of one GPU machine."""
