"""A simulated pair of YAM arms behind i2rt's follower protocol."""
