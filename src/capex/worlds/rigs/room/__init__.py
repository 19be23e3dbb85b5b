"""A stand-in for the room: a simulated Panda behind the drivers' protocols, in its own process."""
