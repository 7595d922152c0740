"""Who is trusted: between console and node one certificate a side, and signatures; elsewhere the system's authorities."""
