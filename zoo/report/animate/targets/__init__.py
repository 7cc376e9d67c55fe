"""One target a file: log_density(q) of positions (chain, 2), not normalised, float64; the page's first line on it.

BOX     ((low, high) of the first coordinate, of the second), what the page shows; both of one length
WIDE    the same, outside of which no probability to speak of lies: over it the marginals are integrated
NODES   points of that integration along each coordinate
START   where chains begin
"""
