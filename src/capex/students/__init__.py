"""Students: ACT and Diffusion Policy trained on certified demonstrations, evaluated on starts that
no dataset used.

    from capex.students.policy import load_policy

    policy = load_policy("runs/act")
    policy.reset()
    action = policy.act({"images": images, "state": state, "instruction": "close the fridge"})

Nothing here is imported by the collector; torch is needed only below this folder (extra
`students`).
"""
