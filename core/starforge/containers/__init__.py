"""One machine's containers: the part that the console's local executor and forgelet share."""
