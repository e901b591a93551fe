"""How large things are: estimates, exact counts, the table of models, the window. Makes and reads no requests."""
