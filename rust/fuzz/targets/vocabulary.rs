//! Damaged vocabulary files.
#![no_main]

#[allow(dead_code)]
#[path = "../../core/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::vocabulary(data));
