"""I2RT's YAM arms: their kinematics, a driver over i2rt's follower server, and the twin's end."""
