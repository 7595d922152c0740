"""Registries of images: asked by the console which content a tag means."""
