//! Binding of `ullage_core::names`.
use crate::bpe::with_utf8;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use ullage_core::names;
use ullage_core::names::tally::{MOST_AUTHORS, Source, Tally};

/// Each name once, in order of first use, with the number of its kind; a long text is read without the interpreter lock.
#[pyfunction]
fn find_names(text: &Bound<'_, PyString>) -> PyResult<Vec<(String, u8)>> {
    with_utf8(text, |utf8| {
        let mut tally = Tally::default();
        let found = tally.names_in(utf8).into_iter();
        found.map(|(name, kind)| (name.to_owned(), kind)).collect()
    })
}

/// Names with their uses, over many texts; one thread at a time may use it.
#[pyclass(module = "ullage._core")]
struct NameTally(Tally);

#[pymethods]
impl NameTally {
    #[new]
    fn new(weights: Vec<u32>) -> PyResult<Self> {
        if weights.len() > MOST_AUTHORS {
            let said = format!("at most {MOST_AUTHORS} weights, not {}", weights.len());
            return Err(PyIndexError::new_err(said));
        }
        Ok(Self(Tally::new(weights)))
    }

    /// Counts each name in a text once; a long text is read without the interpreter lock.
    #[pyo3(signature = (text, author, index, *, home = None, moves = false, most_hashes = 0))]
    fn add(
        &mut self,
        text: &Bound<'_, PyString>,
        author: u8,
        index: i64,
        home: Option<&Bound<'_, PyString>>,
        moves: bool,
        most_hashes: usize,
    ) -> PyResult<()> {
        self.known(author)?;
        let home = home
            .map(|home| with_utf8(home, str::to_owned))
            .transpose()?;
        let source = Source {
            author,
            index,
            home: home.as_deref().unwrap_or(""),
            moves,
            most_hashes,
        };
        with_utf8(text, |utf8| self.0.add(utf8, source))
    }

    /// Counts a name that the caller found; its kind is `None`.
    fn add_name(&mut self, name: &Bound<'_, PyString>, author: u8, index: i64) -> PyResult<()> {
        self.known(author)?;
        with_utf8(name, |utf8| self.0.add_name(utf8, author, index))
    }

    /// The names of most worth, ranked without the interpreter lock: text, kind, uses, last, score, author, home.
    fn ranked(&self, py: Python<'_>, end: i64, most: usize) -> Vec<Row<'_>> {
        let found = py.detach(|| self.0.ranked(end, most));
        found.into_iter().map(row).collect()
    }
}

type Row<'a> = (&'a str, Option<u8>, usize, i64, i64, u8, &'a str);

fn row(name: names::tally::Ranked<'_>) -> Row<'_> {
    let kind = (name.kind != names::tally::GIVEN).then_some(name.kind);
    let (text, home) = (name.text, name.home);
    (
        text,
        kind,
        name.count,
        name.last,
        name.score,
        name.author,
        home,
    )
}

impl NameTally {
    fn known(&self, author: u8) -> PyResult<()> {
        if (author as usize) < self.0.authors() {
            return Ok(());
        }
        Err(PyIndexError::new_err(format!(
            "there is no author {author}"
        )))
    }
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<NameTally>()?;
    m.add_function(wrap_pyfunction!(find_names, m)?)
}
