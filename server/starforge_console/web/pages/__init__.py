"""The console's pages: rendered by the server, complete without scripts."""
