"""Made sessions played through the agents of frameworks: what Ullage sends, and what their own ways to make room send."""
