"""What jobs read beside their workspace: asked for at admission, fetched from a hub, found on the storage."""
