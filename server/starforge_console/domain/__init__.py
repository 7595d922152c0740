"""Pure decisions: values and now in, a decision out."""
