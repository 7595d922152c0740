"""Webhooks: whoever asked for it is told of changes of jobs over HTTP."""
