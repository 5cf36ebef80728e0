"""Constants of robust statistics."""

# The standard deviation of a Gaussian over its median absolute deviation, 1 / Φ⁻¹(3/4). The rounded literal is kept:
# more digits would change every threshold that is a multiple of it.
MAD_TO_STD = 1.4826
