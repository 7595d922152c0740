"""The rules, one module a theme; `book` holds them in the order in which a line is compared with them."""
