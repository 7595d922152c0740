"""One example of every message of the API, for its OpenAPI document: built from the messages themselves."""
