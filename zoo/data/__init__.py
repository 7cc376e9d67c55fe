"""Where data come from: generated (`toy`) or read from tables (`tables`)."""
