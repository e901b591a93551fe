//! The verifier: what a provider would refuse, over digests.
