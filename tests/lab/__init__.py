"""A lab of one's own for tests: a fast world and a model that is a function of the request, both found by module name."""
