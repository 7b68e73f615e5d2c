//! Walks over both captures along their alignment and collects what differs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rehal_base::{Result, StatusCode};
use rehal_hal::{CreateOp, FileContents, FileSource, HostOp, Op, PrepareExecutable, Validation};
use rehal_judge::NONE;
use rehal_replay::Ids;

use super::capture_pass::{Call, Entry, Role, Side, call, name_of};
use super::data;
use super::executables::{self, Prepared};
use super::fields::{self, Fields, Name, ObjectKind, Value};
use super::groups::{Change, Groups};
use super::objects::Objects;
use super::pairs::Pairs;
use super::report::{ChangeKind, DiffOptions, ExecutableChange, FieldChange, FieldName, FieldValue};

/// Maximum number of submissions that only one capture has and that are followed, to find what others wait
/// for through them.
const MAX_FOLLOWED: usize = 1 << 22;
/// Maximum number of sentences about what could not be compared.
const MAX_UNDETERMINED: usize = 64;

/// The state of a walk.
pub(super) struct Walk<'s, 'c> {
    before: &'s Side<'c>,
    after: &'s Side<'c>,
    pairs: &'s Pairs,
    options: &'s DiffOptions,
    objects: Objects,
    /// Whether all operations are at the same index in both captures, and all objects have the same ids.
    is_in_place: bool,
    pub groups: Groups,
    pub executables: Vec<ExecutableChange>,
    pub same_count: u64,
    pub undetermined: BTreeSet<String>,
    /// How far [`Walk::next_listed`] has come in each capture.
    listed: [u32; 2],
    /// Number of submissions that can still be followed.
    left_to_follow: usize,
    first: List<'c>,
    second: List<'c>,
}

/// The fields of an operation.
#[derive(Default)]
struct List<'c>(Vec<(Name, Value<'c>)>);

impl<'c> Fields<'c> for List<'c> {
    fn field(&mut self, name: Name, value: Value<'c>) {
        self.0.push((name, value));
    }
}

impl<'c> List<'c> {
    fn of(&mut self, call: &Call<'c>) {
        self.0.clear();
        let name = |base| Name { base, index: None, part: "" };
        match call {
            Call::Op(op) => fields::write(op, self),
            Call::Failed(status) => {
                self.0.push((name("status"), Value::Text(status_name(*status).as_bytes())));
            }
            Call::Opaque => {}
        }
    }
}

impl<'s, 'c> Walk<'s, 'c> {
    /// Compares everything.
    pub(super) fn run(
        before: &'s Side<'c>,
        after: &'s Side<'c>,
        pairs: &'s Pairs,
        options: &'s DiffOptions,
        max_kept: u64,
    ) -> Result<Self> {
        let objects = Objects::from_pairs(before, after, pairs);
        let is_in_place = objects.are_identical
            && pairs.before.len() == pairs.after.len()
            && (0u32..).zip(&pairs.before).all(|(x, y)| x == *y);
        let mut this = Self {
            before,
            after,
            pairs,
            options,
            objects,
            is_in_place,
            groups: Groups::new(max_kept),
            executables: Vec::new(),
            same_count: 0,
            undetermined: BTreeSet::new(),
            listed: [0; 2],
            left_to_follow: MAX_FOLLOWED,
            first: List::default(),
            second: List::default(),
        };
        let (mut x, mut y) = (0, 0);
        loop {
            x = this.only_before(x)?;
            y = this.only_after(y)?;
            if x as usize == before.entries.len() {
                return Ok(this);
            }
            this.both(x, y, ChangeKind::Changed)?;
            (x, y) = (x + 1, y + 1);
        }
    }

    /// Passes the operations that only the first capture has here; returns the next one with a partner.
    fn only_before(&mut self, mut x: u32) -> Result<u32> {
        let end = run_end(&self.pairs.before, x);
        while x < end {
            x = match self.pairs.moved.get(&x) {
                Some(y) => {
                    self.both(x, *y, ChangeKind::Moved)?;
                    x + 1
                }
                None => self.only(x, end, ChangeKind::Removed)?,
            };
        }
        Ok(end)
    }

    /// The same for the second capture.
    fn only_after(&mut self, mut y: u32) -> Result<u32> {
        let end = run_end(&self.pairs.after, y);
        while y < end {
            y = match self.pairs.moved_after.contains_key(&y) {
                true => y + 1,
                false => self.only(y, end, ChangeKind::Inserted)?,
            };
        }
        Ok(end)
    }

    /// Adds an operation that only one capture has, or a whole scope; returns the next one.
    fn only(&mut self, index: u32, end: u32, kind: ChangeKind) -> Result<u32> {
        let side = self.side(kind);
        let entry = &side.entries[index as usize];
        let record = side.record(index)?;
        let call = call(&record)?;
        if let Some(Call::Op(Op::Host(HostOp::Create(CreateOp::Executable(op))))) = &call {
            let prepared = Prepared { op, record: entry.ordinal };
            self.executables.push(executables::only(kind, prepared));
            return Ok(index + 1);
        }
        let mut change = Change {
            kind,
            operation: name_of(entry.code),
            subject: call.as_ref().map_or(&[][..], |call| subject(side, call)),
            scope: entry.scope,
            before: None,
            after: None,
            operation_count: 1,
            changes: Vec::new(),
        };
        let mut next = index + 1;
        if let Some(last) = self.scope_end(index, end, kind) {
            change.operation = "scope";
            change.operation_count = u64::from(last - index) + 1;
            next = last + 1;
        }
        match kind {
            ChangeKind::Inserted => change.after = Some(entry.ordinal),
            _ => change.before = Some(entry.ordinal),
        }
        self.groups.add(side, change);
        Ok(next)
    }

    /// The end of the scope that begins at `index`, if all of it is only in this capture and before `end`.
    fn scope_end(&mut self, index: u32, end: u32, kind: ChangeKind) -> Option<u32> {
        let side = self.side(kind);
        if side.entries[index as usize].role != Role::ScopeBegin {
            return None;
        }
        let last = *side.scope_ends.get(&index)?;
        (last < end && last < self.next_listed(index, kind)).then_some(last)
    }

    /// The first operation from `index` on that is listed by itself, in whatever scope: a moved one, or an
    /// executable. The walk asks in the order of a capture, so that nested scopes do not make it pass the
    /// same operations again.
    fn next_listed(&mut self, index: u32, kind: ChangeKind) -> u32 {
        let (side, pairs) = (self.side(kind), self.pairs);
        let moved = if kind == ChangeKind::Inserted { &pairs.moved_after } else { &pairs.moved };
        let next = &mut self.listed[usize::from(kind == ChangeKind::Inserted)];
        *next = index.max(*next);
        let is_listed = |at: &u32, entry: &Entry| entry.role == Role::Executable || moved.contains_key(at);
        *next += side.entries[*next as usize..]
            .iter()
            .zip(*next..)
            .take_while(|(entry, at)| !is_listed(at, entry))
            .count() as u32;
        *next
    }

    fn side(&self, kind: ChangeKind) -> &'s Side<'c> {
        if kind == ChangeKind::Inserted { self.after } else { self.before }
    }

    /// Compares two operations.
    fn both(&mut self, x: u32, y: u32, kind: ChangeKind) -> Result<()> {
        let (first, second) = (self.before.record(x)?, self.after.record(y)?);
        let is_same_header = || {
            let (first, second) = (first.header, second.header);
            (first.object_id, first.related_object_id, first.device_id, first.status_code)
                == (second.object_id, second.related_object_id, second.device_id, second.status_code)
        };
        let read = self.read(x, y);
        if self.is_in_place && first.payload == second.payload && is_same_header() && read.is_none() {
            self.same_count += 1;
            return Ok(());
        }
        let (Some(first), Some(second)) = (call(&first)?, call(&second)?) else { return Ok(()) };
        let (mut before, mut after) = (std::mem::take(&mut self.first), std::mem::take(&mut self.second));
        before.of(&first);
        after.of(&second);
        let mut changes = Vec::new();
        match std::mem::discriminant(&first) == std::mem::discriminant(&second) {
            true => self.compare(&before.0, &after.0, &mut changes)?,
            // A call that failed has no other fields.
            false => changes.push(outcomes(&first, &second)),
        }
        changes.extend(read);
        (self.first, self.second) = (before, after);
        let ordinals = (self.before.entries[x as usize].ordinal, self.after.entries[y as usize].ordinal);
        if let (Some(first), Some(second)) = (executable(&first), executable(&second)) {
            let first = Prepared { op: first, record: ordinals.0 };
            let second = Prepared { op: second, record: ordinals.1 };
            let change = executables::compare(kind, first, second, changes);
            self.same_count += u64::from(change.is_none());
            self.executables.extend(change);
            return Ok(());
        }
        if changes.is_empty() && kind == ChangeKind::Changed {
            self.same_count += 1;
            return Ok(());
        }
        let entry = &self.before.entries[x as usize];
        let change = Change {
            kind,
            operation: name_of(entry.code),
            subject: subject(self.before, &first),
            scope: entry.scope,
            before: Some(ordinals.0),
            after: Some(ordinals.1),
            operation_count: 1,
            changes,
        };
        self.groups.add(self.before, change);
        Ok(())
    }

    /// Compares what the host read, if both captures have its digest.
    fn read(&self, x: u32, y: u32) -> Option<FieldChange> {
        let (first, second) = (self.before.reads.get(&x)?, self.after.reads.get(&y)?);
        let text = |digest: &[u8; 16]| {
            Some(FieldValue::Text(format!("BLAKE3 {:032x}", u128::from_be_bytes(*digest)).into()))
        };
        let name = FieldName(Name { base: "bytes read", index: None, part: "" });
        let change = FieldChange { name, before: text(first), after: text(second), data: None };
        (first != second).then_some(change)
    }

    /// Compares the fields of two operations.
    fn compare(
        &mut self,
        before: &[(Name, Value<'c>)],
        after: &[(Name, Value<'c>)],
        changes: &mut Vec<FieldChange>,
    ) -> Result<()> {
        let is_zipped = before.len() == after.len()
            && before.iter().zip(after).all(|(first, second)| first.0 == second.0);
        if is_zipped {
            for ((name, first), (_, second)) in before.iter().zip(after) {
                self.field(*name, *first, *second, changes)?;
            }
            return Ok(());
        }
        let mut others: HashMap<Name, Value<'c>> = after.iter().copied().collect();
        for (name, first) in before {
            match others.remove(name) {
                Some(second) => self.field(*name, *first, second, changes)?,
                None => changes.extend(self.only_field(*name, *first, ChangeKind::Removed)),
            }
        }
        for (name, second) in after.iter().filter(|(name, _)| others.contains_key(name)) {
            changes.extend(self.only_field(*name, *second, ChangeKind::Inserted));
        }
        Ok(())
    }

    /// A field that only one of two operations has. The number of elements of a list follows from its
    /// elements.
    fn only_field(&self, name: Name, value: Value<'c>, kind: ChangeKind) -> Option<FieldChange> {
        let value = Some(self.value(value, kind)?);
        let (before, after) = if kind == ChangeKind::Inserted { (None, value) } else { (value, None) };
        Some(FieldChange { name: FieldName(name), before, after, data: None })
    }

    /// The value in a report; `None` if it has none of its own.
    fn value(&self, value: Value<'c>, kind: ChangeKind) -> Option<FieldValue> {
        let side = self.side(kind);
        let object = |kind, id| {
            let record = side.creator(id).map(|entry| side.entries[entry as usize].ordinal);
            FieldValue::Object { kind, id, record }
        };
        Some(match value {
            Value::Number(number) => FieldValue::Number(number),
            Value::Flags(bits, names) => FieldValue::Text(names(bits).into()),
            Value::Triple(triple) => FieldValue::Triple(triple),
            Value::Text(text) => FieldValue::Text(String::from_utf8_lossy(text).into()),
            Value::Object(kind, id) => object(kind, id),
            Value::Function(executable, ordinal) => match side.function_name(executable, ordinal) {
                Some(name) => FieldValue::Text(String::from_utf8_lossy(name).into()),
                None => FieldValue::Text(format!("function {ordinal} of executable {executable}").into()),
            },
            Value::Data(data) => {
                FieldValue::Data { length: data.len() as u64, digest: rehal_judge::digest(data) }
            }
            Value::Signals(list) => FieldValue::Number(list.len() as u64),
            Value::Count(_)
            | Value::Waits(_)
            | Value::Source(_)
            | Value::FileRead { .. }
            | Value::Created(..) => return None,
        })
    }

    fn field(
        &mut self,
        name: Name,
        before: Value<'c>,
        after: Value<'c>,
        changes: &mut Vec<FieldChange>,
    ) -> Result<()> {
        let is_same = match (before, after) {
            (Value::Number(x), Value::Number(y)) | (Value::Flags(x, _), Value::Flags(y, _)) => x == y,
            (Value::Triple(x), Value::Triple(y)) => x == y,
            (Value::Text(x), Value::Text(y)) => x == y,
            (Value::Object(_, x), Value::Object(_, y)) => self.objects.is_same(x, y),
            (Value::Function(x, first), Value::Function(y, second)) => {
                return self.function((x, first), (y, second), name, changes);
            }
            (Value::Signals(x), Value::Signals(y)) => x.len() == y.len(),
            (Value::Data(_), Value::Data(_)) if name.base == "functions" || name.base == "code" => true,
            (Value::Data(x), Value::Data(y)) => {
                changes.extend(data::compare(FieldName(name), x, y, self.options));
                true
            }
            (Value::Waits(x), Value::Waits(y)) => {
                changes.extend(self.waits(name, x, y)?);
                true
            }
            (Value::Source(x), Value::Source(y)) => {
                self.sources(x, y, changes);
                true
            }
            (
                Value::FileRead { file, offset, captured },
                Value::FileRead { file: other, offset: second, captured: bytes },
            ) => {
                let first = read(self.before.source(file), offset, captured);
                let second = read(self.after.source(other), second, bytes);
                if let (Some(first), Some(second)) = (first, second) {
                    let length = first.len().min(second.len());
                    let change =
                        data::compare(FieldName(name), &first[..length], &second[..length], self.options);
                    changes.extend(change);
                }
                true
            }
            // The elements of lists are fields of their own.
            _ => true,
        };
        if !is_same {
            let (before, after) =
                (self.value(before, ChangeKind::Removed), self.value(after, ChangeKind::Inserted));
            changes.push(FieldChange { name: FieldName(name), before, after, data: None });
        }
        Ok(())
    }

    /// Functions are the same if they have the same name, or else the same ordinal, in the same executable.
    fn function(
        &mut self,
        before: (u64, u32),
        after: (u64, u32),
        name: Name,
        changes: &mut Vec<FieldChange>,
    ) -> Result<()> {
        let first = self.before.function_name(before.0, before.1);
        let second = self.after.function_name(after.0, after.1);
        let is_same_executable = self.objects.is_same(before.0, after.0);
        let is_same_function = match (first, second) {
            (Some(first), Some(second)) => first == second,
            _ => before.1 == after.1,
        };
        let mut add = |name: Name, first: Value<'c>, second: Value<'c>| {
            let before = self.value(first, ChangeKind::Removed);
            let after = self.value(second, ChangeKind::Inserted);
            changes.push(FieldChange { name: FieldName(name), before, after, data: None });
        };
        if !is_same_function {
            add(name, Value::Function(before.0, before.1), Value::Function(after.0, after.1));
        } else if !is_same_executable {
            let name = Name { base: "executable", ..name };
            let object = |id| Value::Object(ObjectKind::Executable, id);
            add(name, object(before.0), object(after.0));
        }
        Ok(())
    }

    /// Compares what two submissions wait for: the submissions that signal it, since payloads count those
    /// before.
    fn waits(
        &mut self,
        name: Name,
        before: &[rehal_capture::layout::SemaphoreTimepoint],
        after: &[rehal_capture::layout::SemaphoreTimepoint],
    ) -> Result<Option<FieldChange>> {
        let origin = |side: &Side<'_>, it: &rehal_capture::layout::SemaphoreTimepoint| {
            side.origin(it.semaphore_id.get(), it.value.get())
        };
        let is_same = before.len() == after.len()
            && before.iter().zip(after).all(|(first, second)| {
                match (origin(self.before, first), origin(self.after, second)) {
                    (None, None) => true,
                    (Some(first), Some(second)) => self.pairs.to_after(first) == Some(second),
                    _ => false,
                }
            });
        if is_same {
            return Ok(None);
        }
        let origins = |side: &Side<'_>, list: &[_]| list.iter().filter_map(|it| origin(side, it)).collect();
        let (pairs, left) = (self.pairs, &mut self.left_to_follow);
        let (first, second) = (origins(self.before, before), origins(self.after, after));
        let first = followed(self.before, first, left, |x| pairs.to_after(x).map(|y| (y, x)))?;
        let second = followed(self.after, second, left, |y| pairs.to_before(y).map(|_| (y, y)))?;
        let (Some(first), Some(second)) = (first, second) else {
            self.note("what some submissions wait for through many that only one capture has".into());
            return Ok(None);
        };
        if first.keys().eq(second.keys()) {
            return Ok(None);
        }
        let text = |side: &Side<'_>, entries: Vec<u32>| {
            let parts = entries.iter().map(|index| {
                let entry = &side.entries[*index as usize];
                format!("#{} {}", entry.ordinal, name_of(entry.code))
            });
            let parts: Vec<_> = parts.collect();
            let text = if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") };
            Some(FieldValue::Text(text.into()))
        };
        Ok(Some(FieldChange {
            name: FieldName(name),
            before: text(self.before, first.into_values().collect()),
            after: text(self.after, second.into_values().collect()),
            data: None,
        }))
    }

    /// Compares the sources of two files: their contents, as far as both captures know them, else their
    /// paths.
    fn sources(
        &mut self,
        before: FileSource<&'c [u8]>,
        after: FileSource<&'c [u8]>,
        changes: &mut Vec<FieldChange>,
    ) {
        let name = |base| Name { base, index: None, part: "" };
        if let (FileContents::Inline(first), FileContents::Inline(second)) = (before.contents, after.contents)
        {
            changes.extend(data::compare(FieldName(name("contents")), first, second, self.options));
            return;
        }
        if let (FileContents::Ranges { .. }, FileContents::Ranges { .. }) = (before.contents, after.contents)
        {
            // What is read is compared where it is read.
            return;
        }
        if let (Some(first), Some(second)) = (digest(&before.contents), digest(&after.contents)) {
            if first != second {
                let text = |digest: u64| Some(FieldValue::Text(format!("digest {digest:016x}").into()));
                let name = FieldName(name("contents"));
                changes.push(FieldChange { name, before: text(first), after: text(second), data: None });
            }
            return;
        }
        let (first, second) = (path(&before.contents), path(&after.contents));
        let (Some(first), Some(second)) = (first, second) else {
            if let Some(path) = first.or(second) {
                let path = path.escape_ascii();
                self.note(format!(
                    "whether the contents of the file '{path}' are the same: one capture refers to it"
                ));
            }
            return;
        };
        if first != second {
            let text = |path: &[u8]| Some(FieldValue::Text(String::from_utf8_lossy(path).into()));
            let name = FieldName(name("path"));
            changes.push(FieldChange { name, before: text(first), after: text(second), data: None });
        } else if before.identity.mtime_ns != after.identity.mtime_ns {
            let path = first.escape_ascii();
            self.note(format!(
                "whether the contents of the file '{path}' are the same: its times of modification differ"
            ));
        }
    }

    fn note(&mut self, text: String) {
        if self.undetermined.len() < MAX_UNDETERMINED {
            self.undetermined.insert(text);
        }
    }
}

/// The end of the run without partners that starts at `at`.
fn run_end(partners: &[u32], at: u32) -> u32 {
    at + partners[at as usize..].iter().take_while(|partner| **partner == NONE).count() as u32
}

/// The submissions that these stand for, by key: those that have none stand for what they wait for
/// themselves. `None` if too many have none: `left` is how many may be followed.
fn followed(
    side: &Side<'_>,
    mut open: Vec<u32>,
    left: &mut usize,
    key: impl Fn(u32) -> Option<(u32, u32)>,
) -> Result<Option<BTreeMap<u32, u32>>> {
    let mut found = BTreeMap::new();
    let mut seen: BTreeSet<u32> = open.iter().copied().collect();
    while let Some(index) = open.pop() {
        if let Some((key, value)) = key(index) {
            found.insert(key, value);
            continue;
        }
        let Some(rest) = left.checked_sub(1) else { return Ok(None) };
        *left = rest;
        let Some(Call::Op(Op::Queue(submission))) = call(&side.record(index)?)? else { continue };
        for it in submission.waits {
            let origin = side.origin(it.semaphore_id.get(), it.value.get());
            open.extend(origin.filter(|origin| seen.insert(*origin)));
        }
    }
    Ok(Some(found))
}

/// The subject of an operation: a function, a scope or a path.
fn subject<'c>(side: &Side<'c>, call: &Call<'c>) -> &'c [u8] {
    let Call::Op(op) = call else { return &[] };
    match op {
        Op::Host(HostOp::ScopeBegin { name } | HostOp::ScopeEnd { name }) => name,
        Op::Host(HostOp::Create(CreateOp::File(it))) => path(&it.source.contents).unwrap_or_default(),
        op => match fields::dispatched(op) {
            Some((executable, ordinal)) => side.function_name(executable, ordinal).unwrap_or_default(),
            None => &[],
        },
    }
}

fn executable<'o, 'c>(call: &'o Call<'c>) -> Option<&'o PrepareExecutable<Ids<'c>>> {
    match call {
        Call::Op(Op::Host(HostOp::Create(CreateOp::Executable(it)))) => Some(it),
        _ => None,
    }
}

/// The change of an operation that succeeded in one capture and not in the other.
fn outcomes(before: &Call<'_>, after: &Call<'_>) -> FieldChange {
    let text = |call: &Call<'_>| {
        Some(FieldValue::Text(match call {
            Call::Op(_) => "succeeded".into(),
            Call::Failed(status) => format!("failed ({})", status_name(*status)).into(),
            Call::Opaque => "not captured".into(),
        }))
    };
    let name = FieldName(Name { base: "outcome", index: None, part: "" });
    FieldChange { name, before: text(before), after: text(after), data: None }
}

/// The name of a status, such as `OUT_OF_RANGE`.
fn status_name(status: u32) -> &'static str {
    StatusCode::from_u32(status).map_or("unknown status", StatusCode::name)
}

/// The bytes that were read from a file, if the capture has them.
fn read<'c>(source: Option<FileSource<&'c [u8]>>, offset: u64, captured: &'c [u8]) -> Option<&'c [u8]> {
    match source?.contents {
        _ if !captured.is_empty() => Some(captured),
        FileContents::Inline(bytes) => bytes.get(usize::try_from(offset).ok()?..),
        _ => None,
    }
}

/// The FNV-1a-64 digest of a file, if the capture has it or its contents.
fn digest(contents: &FileContents<&[u8]>) -> Option<u64> {
    match contents {
        FileContents::External { validation: Validation::Digest(digest), .. } => Some(*digest),
        FileContents::Inline(bytes) => Some(rehal_base::fnv::fnv1a64(bytes)),
        _ => None,
    }
}

fn path<'c>(contents: &FileContents<&'c [u8]>) -> Option<&'c [u8]> {
    match contents {
        FileContents::External { path, .. } | FileContents::Ranges { path } => Some(path),
        FileContents::Nothing | FileContents::Inline(_) => None,
    }
}
