//! For tests and fuzzing: the same work as a lesser machine does it. In no build that is shipped.

use std::cell::Cell;

/// The most that may be used of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Machine {
    /// What every machine of the target has: the twin of the others.
    Least,
    /// AVX2, if the processor has it.
    Avx2,
    /// All that the library knows to use.
    Widest,
}

thread_local! {
    static MOST: Cell<Machine> = const { Cell::new(Machine::Widest) };
}

pub(super) fn most() -> Machine {
    MOST.get()
}

/// What each machine that this processor can be makes of the work, the least first.
pub fn on_each_machine<T>(work: impl Fn() -> T) -> Vec<T> {
    let before = most();
    let found = [Machine::Least, Machine::Avx2, Machine::Widest].map(|machine| {
        MOST.set(machine);
        work()
    });
    MOST.set(before);
    found.into()
}
