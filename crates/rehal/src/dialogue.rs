//! Replays that ask: another process, or another language, sees what a replay does, reads its buffers, and
//! chooses what replaces its executables.
//!
//! Questions and answers are messages. Bytes are not part of them: who answers names a file, which both sides
//! can map, and the replay writes what was asked for into it.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rehal_base::{Error, Range, Result, glob, plural};
use rehal_hal::{Buffer, transfer};
use rehal_replay::{Candidate, HostRead, Observer, Operation, Plan, RecordLocation, Replacement, Substitute};
use serde::{Deserialize, Serialize};

/// The subjects about which a replay asks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ReplayQuestions {
    /// A pattern, with `*` and `?`, of the functions before whose dispatches it asks.
    pub before: Option<String>,
    /// A pattern of the functions after whose dispatches it asks.
    pub after: Option<String>,
    /// Whether it asks about host reads.
    pub host_reads: bool,
    /// Whether it asks what replaces executables.
    pub executables: bool,
    /// The operation before which it asks, and then ends.
    pub at: Option<AskedPlace>,
}

/// An operation of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedPlace {
    /// The ordinal of its record.
    pub record: u32,
    /// How often its record has been performed before.
    pub occurrence: u64,
}

/// A question of a replay. It continues when it is answered, unless the answer asks for bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Question {
    /// The executable that may be replaced.
    Executable(AskedExecutable),
    /// A dispatch is about to be performed.
    Before(AskedDispatch),
    /// A dispatch is complete.
    After(AskedDispatch),
    /// The program reads bytes.
    HostRead(AskedHostRead),
    /// The operation that was asked for is about to be performed: these buffers exist.
    At {
        /// Each with its id and its size.
        buffers: Vec<(u64, u64)>,
    },
    /// The bytes that an answer asked for are in its file.
    Copied {
        /// How many.
        length: u64,
    },
    /// They cannot be read.
    Refused {
        /// The name of a status code.
        code: String,
        /// Why.
        message: String,
    },
}

/// An executable that may be replaced.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AskedExecutable {
    /// Its id in the capture.
    pub id: u64,
    /// Its format.
    pub format: String,
    /// The names of its functions.
    pub functions: Vec<String>,
    /// The size of its code.
    pub code_bytes: u64,
}

/// A dispatch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AskedDispatch {
    /// The ordinal of its record.
    pub record: u32,
    /// The ordinal of the record of its submission.
    pub submission: u32,
    /// How often its record has been performed before.
    pub occurrence: u64,
    /// The innermost scope that is open.
    pub scope: Option<String>,
    /// The id of the executable.
    pub executable: u64,
    /// The name of the function.
    pub function: String,
    /// Workgroups in x, y and z.
    pub workgroup_count: [u32; 3],
    /// The 32-bit constants.
    pub constants: Vec<u32>,
    /// The bindings, by ordinal.
    pub bindings: Vec<AskedBinding>,
}

/// A binding of a dispatch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AskedBinding {
    /// The id of its buffer.
    pub buffer: u64,
    /// The first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// Bytes that the program reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AskedHostRead {
    /// The ordinal of its record.
    pub record: u32,
    /// The innermost scope that is open.
    pub scope: Option<String>,
    /// The id of the buffer.
    pub buffer: u64,
    /// The first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// Continue; an executable stays captured.
    Continue,
    /// Write bytes of a buffer into a file, and ask again.
    Read(AnsweredRead),
    /// Replace the executable.
    Replace {
        /// The file that has the code.
        path: PathBuf,
        /// The format of the code; `None` to detect it.
        format: Option<String>,
        /// Whether it replaces only the functions that it has.
        #[serde(default)]
        keeps_missing: bool,
    },
}

/// Bytes that an answer asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnsweredRead {
    /// The id of the buffer.
    pub buffer: u64,
    /// The first byte.
    pub offset: u64,
    /// Number of bytes; `None` for all up to the end of the buffer.
    pub length: Option<u64>,
    /// The file, which exists.
    pub to: PathBuf,
}

/// Who answers.
type Reply = Box<dyn FnMut(&Question) -> Result<Answer> + Send>;

/// Asks about a replay as one of its observers. [`Dialogue::substitute`] is an option of that replay.
pub struct Dialogue {
    questions: ReplayQuestions,
    reply: Arc<Mutex<Reply>>,
    /// The records whose dispatches it asks about.
    before: HashSet<u32>,
    after: HashSet<u32>,
    has_reached_place: bool,
    /// How often the record of that operation has been performed.
    performed: u64,
    /// The first operation after that record, in the order of records.
    next: Option<u32>,
}

impl Dialogue {
    /// Asks `reply`.
    pub fn new(
        questions: ReplayQuestions,
        reply: impl FnMut(&Question) -> Result<Answer> + Send + 'static,
    ) -> Self {
        let reply: Reply = Box::new(reply);
        Self {
            questions,
            reply: Arc::new(Mutex::new(reply)),
            before: HashSet::new(),
            after: HashSet::new(),
            has_reached_place: false,
            performed: 0,
            next: None,
        }
    }

    /// Asks what replaces each executable; `None` if it does not ask.
    pub fn substitute(&self) -> Option<Substitute> {
        let reply = self.reply.clone();
        self.questions
            .executables
            .then(|| -> Substitute { Arc::new(move |candidate| substitute(candidate, &reply)) })
    }

    /// Finds the dispatches that it asks about. To be called before a run of the plan.
    pub fn begin(&mut self, plan: &Plan) -> Result<()> {
        let Self { questions, before, after, .. } = self;
        plan.distinct_dispatches(|dispatch, _| {
            let name = name_of(dispatch.name, dispatch.function);
            for (pattern, records) in [(&questions.before, &mut *before), (&questions.after, &mut *after)] {
                // A capture of version 1.0 has no names: each dispatch is looked at when it is performed.
                let is_wanted = |it: &String| dispatch.name.is_empty() || glob::matches(it, &name);
                if pattern.as_ref().is_some_and(is_wanted) {
                    records.insert(dispatch.location.ordinal);
                }
            }
            Ok(())
        })
    }

    /// Fails if the run did not reach the operation before which it was to end.
    pub fn finish(&self) -> Result<()> {
        match self.questions.at {
            Some(AskedPlace { record, occurrence }) if !self.has_reached_place => {
                if self.performed > 0 {
                    let message = format!(
                        "a replay performs record {record} {}, not {}",
                        plural(self.performed, "time"),
                        plural(occurrence + 1, "time")
                    );
                    return Err(Error::not_found(message).advise("occurrences count from 0"));
                }
                let message = format!("record {record} is not an operation that a device performs");
                Err(Error::not_found(message).advise(match self.next {
                    Some(next) => format!("ask for record {next}, the next one that is"),
                    None => "no record after it is one".into(),
                }))
            }
            _ => Ok(()),
        }
    }

    /// Whether it asks before this operation. Notes the nearest operation for the error if none is found.
    fn is_place(&mut self, location: RecordLocation, occurrence: u64) -> bool {
        let Some(at) = self.questions.at else { return false };
        match location.ordinal {
            next if next > at.record => self.next = Some(self.next.map_or(next, |found| found.min(next))),
            same if same == at.record => self.performed = self.performed.max(occurrence + 1),
            _ => {}
        }
        at == AskedPlace { record: location.ordinal, occurrence }
    }

    /// Asks about a dispatch, if it is one that is asked about.
    fn ask_about(&self, operation: &Operation<'_>, is_before: bool) -> Result<()> {
        let (records, pattern) = match is_before {
            true => (&self.before, &self.questions.before),
            false => (&self.after, &self.questions.after),
        };
        let Some(pattern) = pattern.as_ref().filter(|_| records.contains(&operation.location.ordinal)) else {
            return Ok(());
        };
        let Some(dispatch) = dispatch_of(operation).filter(|it| glob::matches(pattern, &it.function)) else {
            return Ok(());
        };
        let question = if is_before { Question::Before(dispatch) } else { Question::After(dispatch) };
        self.discuss(question, &mut |read| read_buffer(operation, read)).map(drop)
    }

    fn discuss(
        &self,
        question: Question,
        read: &mut dyn FnMut(&AnsweredRead) -> Result<u64>,
    ) -> Result<Answer> {
        discuss(&self.reply, question, read)
    }
}

/// Asks, and writes the bytes that answers ask for, until there is another answer.
fn discuss(
    reply: &Mutex<Reply>,
    mut question: Question,
    read: &mut dyn FnMut(&AnsweredRead) -> Result<u64>,
) -> Result<Answer> {
    let mut reply = reply.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        question = match reply(&question)? {
            Answer::Read(asked) => match read(&asked) {
                Ok(length) => Question::Copied { length },
                Err(error) => {
                    Question::Refused { code: error.code().name().into(), message: error.message().into() }
                }
            },
            answer => return Ok(answer),
        };
    }
}

fn substitute(candidate: &Candidate<'_>, reply: &Mutex<Reply>) -> Result<Option<Replacement>> {
    let record = &candidate.record;
    let question = Question::Executable(AskedExecutable {
        id: record.id,
        format: text(record.format),
        functions: record.function_names().map(text).collect(),
        code_bytes: record.data.len() as u64,
    });
    let mut no_bytes = |_: &AnsweredRead| Err(Error::failed_precondition("no buffer exists yet"));
    match discuss(reply, question, &mut no_bytes)? {
        Answer::Replace { path, format, keeps_missing } => {
            // A file that both sides map may not outlive the answer.
            let bytes = std::fs::read(&path)
                .map_err(|error| Error::io(format!("reading '{}'", path.display()), &error))?;
            let mut replacement = Replacement::bytes(bytes);
            replacement.keeps_missing = keeps_missing;
            Ok(Some(match format {
                Some(format) => replacement.of_format(format),
                None => replacement,
            }))
        }
        _ => Ok(None),
    }
}

impl Observer for Dialogue {
    fn wants_host_reads(&self) -> bool {
        self.questions.host_reads
    }

    fn wants_zeroed_memory(&self) -> bool {
        true
    }

    fn wants_operations(&self) -> bool {
        let ReplayQuestions { before, after, at, .. } = &self.questions;
        before.is_some() || after.is_some() || at.is_some()
    }

    fn wants_command(&mut self, location: RecordLocation, occurrence: u64) -> bool {
        let record = location.ordinal;
        self.is_place(location, occurrence) || self.before.contains(&record) || self.after.contains(&record)
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let length = read.memory.length();
        let question = Question::HostRead(AskedHostRead {
            record: read.location.ordinal,
            scope: read.scope.map(text),
            buffer: read.buffer_id,
            offset: read.offset,
            length,
        });
        let copy = &mut |asked: &AnsweredRead| {
            let end = read.offset + length;
            let (first, last) =
                (asked.offset, asked.length.map_or(end, |it| asked.offset.saturating_add(it)));
            if asked.buffer != read.buffer_id || first < read.offset || last < first || last > end {
                return Err(Error::out_of_range(format!(
                    "the program reads bytes {} to {end} of buffer {}",
                    read.offset, read.buffer_id
                )));
            }
            let file = open(&asked.to)?;
            let range = Range { offset: first - read.offset, length: last - first };
            let written = read.memory.write_file_at(&file, 0, range)?;
            written.map_err(|error| cannot_write(&asked.to, &error))?;
            Ok(range.length)
        };
        self.discuss(question, copy).map(drop)
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if self.is_place(operation.location, operation.occurrence) {
            self.has_reached_place = true;
            let buffers = operation.buffers.iter().map(|(id, buffer)| (id, buffer.size())).collect();
            self.discuss(Question::At { buffers }, &mut |read| read_buffer(operation, read))?;
            return Ok(ControlFlow::Break(()));
        }
        self.ask_about(operation, true)?;
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.ask_about(operation, false)?;
        Ok(ControlFlow::Continue(()))
    }
}

/// Writes bytes of a buffer into the file that an answer names. Returns their number.
fn read_buffer(operation: &Operation<'_>, asked: &AnsweredRead) -> Result<u64> {
    let buffer: &Buffer = operation
        .buffers
        .find(asked.buffer)
        .ok_or_else(|| Error::not_found(format!("buffer {} does not exist here", asked.buffer)))?;
    let size = buffer.size();
    let length = asked.length.unwrap_or_else(|| size.saturating_sub(asked.offset));
    if asked.offset.checked_add(length).is_none_or(|end| end > size) {
        let message = format!(
            "{length} bytes at offset {} are not within the {size} bytes of buffer {}",
            asked.offset, asked.buffer
        );
        return Err(Error::out_of_range(message));
    }
    let file = open(&asked.to)?;
    let mut done = 0;
    if length > 0 {
        transfer::read_with(buffer, asked.offset, length, |memory, range| {
            memory.write_file_at(&file, done, range)?.map_err(|error| cannot_write(&asked.to, &error))?;
            done += range.length;
            Ok(())
        })?;
    }
    Ok(length)
}

fn open(path: &Path) -> Result<std::fs::File> {
    let file = OpenOptions::new().write(true).open(path);
    file.map_err(|error| Error::io(format!("opening '{}'", path.display()), &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format!("writing '{}'", path.display()), error)
}

fn dispatch_of(operation: &Operation<'_>) -> Option<AskedDispatch> {
    let dispatch = operation.dispatch?;
    let name = dispatch.executable.function_names().nth(dispatch.function as usize).unwrap_or_default();
    let function = match name.is_empty() {
        true => dispatch.name.to_owned(),
        false => text(name),
    };
    let (constants, _) = dispatch.constants.as_chunks::<4>();
    let binding = |it: &rehal_replay::AccessedRange<'_>| AskedBinding {
        buffer: it.buffer_id,
        offset: it.offset,
        length: it.length,
    };
    Some(AskedDispatch {
        record: operation.location.ordinal,
        submission: operation.submission.ordinal,
        occurrence: operation.occurrence,
        scope: operation.scope.map(text),
        executable: dispatch.executable.id,
        function,
        workgroup_count: dispatch.workgroup_count,
        constants: constants.iter().map(|it| u32::from_le_bytes(*it)).collect(),
        bindings: operation.bindings().iter().map(binding).collect(),
    })
}

fn name_of(name: &[u8], function: u32) -> String {
    if name.is_empty() { format!("#{function}") } else { text(name) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
