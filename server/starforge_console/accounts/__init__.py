"""Accounts: users and tokens."""
