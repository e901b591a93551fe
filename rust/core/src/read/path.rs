//! A place inside a message, written out only when an error names it.

use std::fmt;

/// `content[2].input`, as a chain that lies on the stack.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path<'a> {
    /// The message itself, or the message inside of an envelope.
    Root { enveloped: bool },
    /// A key of an object.
    Key(&'a Path<'a>, &'static str),
    /// An item of a list.
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root { enveloped } => f.write_str(if *enveloped { "message" } else { "" }),
            Self::Key(Path::Root { enveloped: false }, key) => f.write_str(key),
            Self::Key(parent, key) => write!(f, "{parent}.{key}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
