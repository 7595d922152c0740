"""The loops: dequeue, launch, observe, stop, clean up."""
