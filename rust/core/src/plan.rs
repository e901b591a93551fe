//! A plan: decisions, what each frees, what it does to the cached prefix.
