"""The ledger: the only package that speaks SQL; synchronous."""
