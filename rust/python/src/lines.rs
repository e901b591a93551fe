//! A JSONL file that other programs write: read in pieces for the index, and again by the line.
//!
//! It is never mapped: a map of a file that shrinks ends the process with a signal. Each line is read again
//! where it is asked for, and compared with what the index was made of.

use foldhash::quality::FixedState;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read};
use std::path::Path;
use ullage_core::jsonl::{Index, Line, Reader};
use ullage_core::text::Weights;

/// Bytes that are read at once: few calls, and little enough to stay in a processor's own memory.
const PIECE: u64 = 1 << 19;

/// Why a file, or a line of it, was not read.
#[derive(Debug)]
pub(crate) enum Fault {
    Io(io::Error),
    Directory,
    NoFile,
    /// It does not hold any more what was read of it.
    Changed,
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// An open file with what tells whether its lines are still those that were indexed.
#[derive(Debug)]
pub(crate) struct Lines {
    file: File,
    /// What follows the last line end: a writer may take back a line that it could not finish.
    tail: Vec<u8>,
    tail_at: u64,
    /// One for each line of the index.
    sums: Vec<u64>,
}

impl Lines {
    /// Reads a file from its start to the end that it had when it was opened.
    pub(crate) fn read(path: &Path, weights: Option<&Weights>) -> Result<(Index, Self), Fault> {
        let mut file = open(path)?;
        let before = file.metadata()?;
        let size = before.len();
        let mut reader = Reader::new(weights);
        let (mut buffer, mut sums) = (Vec::new(), Vec::new());
        let (mut read, mut fed) = (0, 0);
        while read < size {
            let known = buffer.len();
            let wanted = PIECE.min(size - read);
            buffer.reserve(wanted as usize);
            let found = (&mut file).take(wanted).read_to_end(&mut buffer)? as u64;
            if found < wanted {
                return Err(Fault::Changed);
            }
            read += found;
            if let Some(end) = memchr::memrchr(b'\n', &buffer[known..]) {
                let whole = known + end + 1;
                feed(&mut reader, &buffer[..whole], fed, &mut sums);
                buffer.drain(..whole);
                fed += whole as u64;
            }
        }
        feed(&mut reader, &buffer, fed, &mut sums);
        buffer.shrink_to_fit();
        let lines = Self {
            file,
            tail: buffer,
            tail_at: fed,
            sums,
        };
        let index = reader.finish();
        let after = lines.file.metadata()?;
        let same = after.len() == size && after.modified().ok() == before.modified().ok();
        if !same {
            lines.verify(&index)?;
        }
        Ok((index, lines))
    }

    /// Reads the bytes of a line, as they were indexed, into a place of its length.
    pub(crate) fn line(&self, number: usize, line: &Line, into: &mut [u8]) -> Result<(), Fault> {
        if let Some(start) = line.offset.checked_sub(self.tail_at) {
            let start = usize::try_from(start).unwrap_or(usize::MAX);
            into.copy_from_slice(&self.tail[start..start + into.len()]);
            return Ok(());
        }
        if read_at(&self.file, into, line.offset)? && self.sums.get(number) == Some(&sum(into)) {
            Ok(())
        } else {
            Err(Fault::Changed)
        }
    }

    /// For a file that somebody wrote to while it was read: each line must still stand there.
    fn verify(&self, index: &Index) -> Result<(), Fault> {
        let mut bytes = Vec::new();
        for (number, line) in index.lines().iter().enumerate() {
            bytes.resize(usize::try_from(line.length).unwrap_or(usize::MAX), 0);
            self.line(number, line, &mut bytes)?;
        }
        Ok(())
    }
}

fn feed(reader: &mut Reader<'_>, data: &[u8], base: u64, sums: &mut Vec<u64>) {
    reader.feed(data);
    for line in &reader.lines()[sums.len()..] {
        let start = usize::try_from(line.offset - base).unwrap_or(usize::MAX);
        let length = usize::try_from(line.length).unwrap_or(usize::MAX);
        sums.push(sum(&data[start..start + length]));
    }
}

fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// Opens a regular file; a pipe that stands in its place does not stop the caller.
fn open(path: &Path) -> Result<File, Fault> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NONBLOCK);
    }
    let kind = std::fs::metadata(path)?;
    let refused = |kind: &std::fs::Metadata| {
        if kind.is_dir() {
            return Some(Fault::Directory);
        }
        (!kind.is_file()).then_some(Fault::NoFile)
    };
    if let Some(fault) = refused(&kind) {
        return Err(fault);
    }
    let file = options.open(path)?;
    match refused(&file.metadata()?) {
        Some(fault) => Err(fault),
        None => Ok(file),
    }
}

/// Whether all the bytes were there.
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<bool> {
    #[cfg(unix)]
    let found = std::os::unix::fs::FileExt::read_exact_at(file, bytes, at);
    #[cfg(windows)]
    let found = {
        use std::os::windows::fs::FileExt;
        let mut done = 0;
        loop {
            if done == bytes.len() {
                break Ok(());
            }
            match file.seek_read(&mut bytes[done..], at + done as u64) {
                Ok(0) => break Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        }
    };
    match found {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
