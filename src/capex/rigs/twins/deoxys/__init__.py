"""A simulated Franka behind the Deoxys protocol."""
