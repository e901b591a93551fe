"""For each framework an agent that plays a conversation with `Brain` as its model, with Ullage in it or without."""
