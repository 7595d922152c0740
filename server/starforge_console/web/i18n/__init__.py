"""The words of the pages in every language they speak."""
