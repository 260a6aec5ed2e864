"""How a proposal is asked for: ideas, operators, prompts, answers."""
