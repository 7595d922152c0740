"""Sentences that people read, each with the code and values that it is made from, so that pages can translate it."""
