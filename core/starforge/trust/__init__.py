"""Who is trusted: between console and node one certificate a side, and signatures; elsewhere what the system trusts."""
