"""What outlives the window: notes of one session, and memory that outlives the session."""
