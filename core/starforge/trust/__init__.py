"""How console and node recognise each other: one certificate a side, and signatures of the node's key."""
