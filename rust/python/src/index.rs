//! Binding of `ullage_core::jsonl`: the class `TranscriptIndex`.

use crate::lines::{Fault, Lines};
use crate::once::import;
use crate::survey::{Survey, read};
use crate::text::{Weights, string, with_text};
use crate::tuples;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use ullage_core::jsonl::{Index, Line, Mark, UNKNOWN, has_long_digits};
use ullage_core::survey::Survey as CoreSurvey;
use ullage_core::view::with_utf8;

const LINES: &str = "ullage._engine.transcript_lines";

/// Where the bytes of a transcript lie.
enum Bytes {
    /// Bytes of the caller.
    Given(Py<PyBytes>),
    /// A file, read again by the line.
    Filed(Lines),
}

/// Offsets and digests of a JSONL file; objects are built for the lines that are asked for.
#[pyclass(frozen, module = "ullage._core")]
pub(crate) struct TranscriptIndex {
    index: Index,
    bytes: Bytes,
    path: String,
    weights: Option<Py<Weights>>,
}

impl TranscriptIndex {
    fn at(&self, index: usize) -> PyResult<&Line> {
        let lines = self.index.lines();
        lines
            .get(index)
            .ok_or_else(|| PyIndexError::new_err(format!("line {index} of {}", lines.len())))
    }

    /// The bytes of a line: read, or copied, once.
    fn bytes<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyBytes>> {
        let line = self.at(index)?;
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let (start, length) = (place(line.offset), place(line.length));
        match &self.bytes {
            Bytes::Given(bytes) => Ok(PyBytes::new(py, &bytes.as_bytes(py)[start..start + length])),
            Bytes::Filed(lines) => PyBytes::new_with(py, length, |bytes| {
                lines.line(index, line, bytes).map_err(|fault| {
                    let place = (Some(line.number), Some(line.offset));
                    refused(py, &fault, &self.path, place)
                })
            }),
        }
    }
}

/// Line, logical parent, group, whether it needs no summary, kept entries, head and tail of a kept segment, anchor.
type GivenMark<'py> = (
    u32,
    Bound<'py, PyString>,
    Vec<Bound<'py, PyString>>,
    bool,
    Vec<Bound<'py, PyString>>,
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    Bound<'py, PyString>,
);

impl TranscriptIndex {
    fn mark(&self, given: GivenMark<'_>) -> Mark {
        let (at, parent, group, replaced, kept, head, tail, anchor) = given;
        let number = |text: &Bound<'_, PyString>| {
            let find = |bytes: &[u8]| self.index.find(bytes).unwrap_or(UNKNOWN);
            with_text(text, |text| with_utf8(text, find))
        };
        Mark {
            at,
            parent: number(&parent),
            group: group.iter().map(number).collect(),
            replaced,
            kept: kept.iter().map(number).collect(),
            segment: (number(&head), number(&tail)),
            anchor: number(&anchor),
        }
    }
}

#[pymethods]
impl TranscriptIndex {
    /// Indexes a file.
    #[staticmethod]
    #[pyo3(signature = (path, weights=None))]
    fn open(py: Python<'_>, path: PathBuf, weights: Option<Py<Weights>>) -> PyResult<Self> {
        let shown = path.to_string_lossy().into_owned();
        let given = weights.as_ref().map(|weights| &weights.get().inner);
        let found = py.detach(move || Lines::read(&path, given));
        let (index, lines) = found.map_err(|fault| refused(py, &fault, &shown, (None, None)))?;
        let bytes = Bytes::Filed(lines);
        Ok(Self {
            index,
            bytes,
            path: shown,
            weights,
        })
    }

    /// Indexes bytes in memory.
    #[staticmethod]
    #[pyo3(signature = (data, weights=None))]
    fn from_bytes(py: Python<'_>, data: Py<PyBytes>, weights: Option<Py<Weights>>) -> Self {
        let bytes = data.as_bytes(py);
        let index =
            py.detach(|| Index::read(bytes, weights.as_ref().map(|weights| &weights.get().inner)));
        Self {
            index,
            bytes: Bytes::Given(data),
            path: String::new(),
            weights,
        }
    }

    fn __len__(&self) -> usize {
        self.index.lines().len()
    }

    #[getter]
    fn size(&self) -> u64 {
        self.index.size()
    }

    #[getter]
    fn torn(&self) -> Option<(u64, u64)> {
        let place = self.index.torn()?;
        Some((place.start, place.end - place.start))
    }

    #[getter]
    fn bad(&self) -> Vec<(u32, &'static str)> {
        let bad = self.index.bad().iter();
        bad.map(|(number, problem)| (*number, problem.reason()))
            .collect()
    }

    /// What each line says of itself: type, subtype, uuid, parent, flags.
    fn heads<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        // Each string is made once: types come in every line, and most uuids in two.
        let mut made: Vec<Option<Bound<'py, PyAny>>> = vec![None; self.index.string_count()];
        let heads = PyList::empty(py);
        for line in self.index.lines() {
            let mut text = |number: u32| -> PyResult<Bound<'py, PyAny>> {
                let place = &mut made[number as usize];
                if place.is_none() {
                    *place = Some(string(py, self.index.string(number))?);
                }
                Ok(place.clone().unwrap_or_else(|| py.None().into_bound(py)))
            };
            let flags = self.index.message(line).map_or(0, |found| found.flags);
            let (kind, subtype) = (text(line.kind)?, text(line.subtype)?);
            let (uuid, parent) = (text(line.uuid)?, text(line.parent)?);
            heads.append((kind, subtype, uuid, parent, flags))?;
        }
        Ok(heads)
    }

    /// The digest of a line.
    fn line<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let line = self.at(index)?;
        tuples::line(py, line, self.index.message(line))
    }

    /// The bytes of a line, without line end and white space around it.
    fn raw<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyBytes>> {
        self.bytes(py, index)
    }

    /// The object of a line; a lean one without the copy of a result that an interface keeps.
    #[pyo3(signature = (index, *, lean=false))]
    fn load<'py>(&self, py: Python<'py>, index: usize, lean: bool) -> PyResult<Bound<'py, PyAny>> {
        static PARSE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let line = self.at(index)?;
        let mut raw = self.bytes(py, index)?;
        if lean && let Some(place) = self.index.ui_copy(index) {
            raw = without_copy(&raw, place);
        }
        let value = if let Some(value) = fast(&raw)? {
            value
        } else {
            let parse = import(py, &PARSE, LINES, "parse_line")?;
            parse.call1((raw,))?
        };
        if value.is_instance_of::<PyDict>() {
            return Ok(value);
        }
        let place = (Some(line.number), Some(line.offset));
        Err(invalid_transcript(
            py,
            "not a JSON object",
            &self.path,
            place,
        ))
    }

    /// The string of a number.
    fn string<'py>(&self, py: Python<'py>, r#ref: u32) -> PyResult<Bound<'py, PyAny>> {
        let (number, count) = (r#ref, self.index.string_count());
        if number as usize >= count {
            return Err(PyIndexError::new_err(format!("string {number} of {count}")));
        }
        string(py, self.index.string(number))
    }

    /// Lines with a subtype, or with this type and none, and the newest response that a model gave.
    fn outline(&self, subtype: &Bound<'_, PyString>) -> (Vec<u32>, Option<u32>) {
        with_text(subtype, |text| {
            with_utf8(text, |bytes| self.index.outline(bytes))
        })
    }

    /// The lines in context, where nothing but compactions changed it.
    fn context<'py>(
        &self,
        py: Python<'py>,
        stop: usize,
        marks: Vec<GivenMark<'py>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let marks: Vec<Mark> = marks.into_iter().map(|mark| self.mark(mark)).collect();
        let found = py.detach(|| self.index.context(stop, &marks));
        found.map(|found| tuples::context(py, found)).transpose()
    }

    /// What fills the context of some lines.
    fn survey(
        &self,
        py: Python<'_>,
        lines: &Bound<'_, PyAny>,
        others: Vec<(usize, Bound<'_, PyList>)>,
        mut unmeasured: Vec<u32>,
    ) -> PyResult<Survey> {
        let lines: Vec<usize> = lines.extract()?;
        for &at in &lines {
            self.at(at)?;
        }
        let weights = self.weights.as_ref().map(|weights| &weights.get().inner);
        let others = others
            .into_iter()
            .map(|(place, items)| Ok((place, read(&items, weights)?)));
        let others: Vec<(usize, CoreSurvey)> = others.collect::<PyResult<_>>()?;
        unmeasured.sort_unstable();
        Ok(Survey::of(py, || {
            let others: Vec<_> = others
                .iter()
                .map(|(place, other)| (*place, other))
                .collect();
            self.index.survey(&lines, &others, &unmeasured)
        }))
    }

    fn __repr__(&self) -> String {
        let (lines, size) = (self.index.lines().len(), self.index.size());
        format!("TranscriptIndex({lines} lines, {size} bytes)")
    }
}

/// A line with `null` in place of a copy that nobody reads; what a user answered stands only there.
fn without_copy<'py>(raw: &Bound<'py, PyBytes>, place: Range<usize>) -> Bound<'py, PyBytes> {
    let bytes = raw.as_bytes();
    if memchr::memmem::find(bytes, b"\"answers\"").is_some() {
        return raw.clone();
    }
    PyBytes::new(
        raw.py(),
        &[&bytes[..place.start], b"null", &bytes[place.end..]].concat(),
    )
}

/// The value as orjson reads it, unless it refuses or might round an integer.
fn fast<'py>(raw: &Bound<'py, PyBytes>) -> PyResult<Option<Bound<'py, PyAny>>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if has_long_digits(raw.as_bytes()) {
        return Ok(None);
    }
    match import(raw.py(), &LOADS, "orjson", "loads")?.call1((raw,)) {
        Err(error) if error.is_instance_of::<PyValueError>(raw.py()) => Ok(None),
        result => result.map(Some),
    }
}

type Place = (Option<u32>, Option<u64>);

fn refused(py: Python<'_>, fault: &Fault, path: &str, place: Place) -> PyErr {
    match fault {
        Fault::Io(error) => store_error(py, error, path),
        Fault::Directory => invalid_transcript(py, "is a directory", path, place),
        Fault::NoFile => invalid_transcript(py, "is not a regular file", path, place),
        Fault::Changed => transcript_changed(py, path, place),
    }
}

fn transcript_changed(py: Python<'_>, path: &str, place: Place) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || {
        let make = import(py, &MAKE, LINES, "transcript_changed")?;
        make.call1((path, place.0, place.1)).map(PyErr::from_value)
    };
    make().unwrap_or_else(|error| error)
}

fn invalid_transcript(py: Python<'_>, reason: &str, path: &str, place: Place) -> PyErr {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || {
        let named = PyDict::new(py);
        named.set_item("path", path)?;
        named.set_item("line", place.0)?;
        named.set_item("offset", place.1)?;
        let class = import(py, &CLASS, "ullage.exceptions", "InvalidTranscript")?;
        class.call((reason,), Some(&named)).map(PyErr::from_value)
    };
    make().unwrap_or_else(|error| error)
}

fn store_error(py: Python<'_>, error: &io::Error, path: &str) -> PyErr {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || {
        let reason = match error.raw_os_error() {
            Some(code) => py
                .import("os")?
                .call_method1("strerror", (code,))?
                .extract()?,
            None => error.to_string(),
        };
        let named = PyDict::new(py);
        named.set_item("path", path)?;
        let class = import(py, &CLASS, "ullage.exceptions", "StoreError")?;
        class
            .call((reason.to_lowercase(),), Some(&named))
            .map(PyErr::from_value)
    };
    make().unwrap_or_else(|error: PyErr| error)
}

/// Adds this file's names to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<TranscriptIndex>()
}
