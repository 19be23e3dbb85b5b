"""A Franka behind Deoxys: the messages of its wire, our client, and a peer that plays the robot."""
