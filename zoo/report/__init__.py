"""Tables, pictures and ArviZ: the only place that imports arviz or matplotlib."""
