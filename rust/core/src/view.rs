//! What a message must answer.
