//! A tree of `serde_json` as a [`Value`]: what `Json` must agree with.

use serde_json::Value as Any;
use ullage_core::text::{Text, float_repr};
use ullage_core::view::{Kind, LeafFault, Value};

/// One value of the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree<'a>(pub(crate) &'a Any);

/// Integers of more decimal digits are refused: `text::MAX_INT_BITS`.
const MAX_DIGITS: usize = 4214;

fn is_float(written: &str) -> bool {
    written.contains(['.', 'e', 'E'])
}

impl Value for Tree<'_> {
    fn kind(self) -> Kind {
        match self.0 {
            Any::Null => Kind::Null,
            Any::Bool(true) => Kind::True,
            Any::Bool(false) => Kind::False,
            Any::Number(number) if is_float(number.as_str()) => Kind::Float,
            Any::Number(_) => Kind::Integer,
            Any::String(_) => Kind::Text,
            Any::Array(_) => Kind::List,
            Any::Object(_) => Kind::Map,
        }
    }

    fn with_text<R>(self, look: impl FnOnce(Text<'_>) -> R) -> R {
        look(self.0.as_str().unwrap_or_default().into())
    }

    fn with_word<R>(self, look: impl FnOnce(&str) -> R) -> Result<R, LeafFault> {
        match self.0 {
            Any::Null => Ok(look("null")),
            Any::Bool(true) => Ok(look("true")),
            Any::Bool(false) => Ok(look("false")),
            Any::Number(number) => match number.as_str() {
                written if is_float(written) => Ok(look(&float_repr(
                    written.parse().expect("serde_json has checked it"),
                ))),
                written if written.len() > MAX_DIGITS => Err(LeafFault::Digits),
                "-0" => Ok(look("0")),
                written => Ok(look(written)),
            },
            _ => Err(LeafFault::Foreign(self.foreign_name())),
        }
    }

    fn count(self) -> Option<u32> {
        let Any::Number(number) = self.0 else {
            return None;
        };
        match number.as_str() {
            written if is_float(written) => None,
            written if written.starts_with('-') => Some(0),
            written => Some(written.parse().unwrap_or(u32::MAX)),
        }
    }

    fn size(self) -> usize {
        match self.0 {
            Any::Array(items) => items.len(),
            Any::Object(members) => members.len(),
            _ => 0,
        }
    }

    fn each_item(self, visit: impl FnMut(Self)) {
        let items = self.0.as_array().into_iter().flatten();
        items.map(Tree).for_each(visit);
    }

    fn each_member(self, mut visit: impl FnMut(Text<'_>, Self)) -> Result<(), LeafFault> {
        for (key, value) in self.0.as_object().into_iter().flatten() {
            visit(key.as_str().into(), Tree(value));
        }
        Ok(())
    }
}
