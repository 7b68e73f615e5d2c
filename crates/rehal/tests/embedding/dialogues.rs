//! Replays that ask, and whose questions are answered.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal::dialogue::{Answer, AnsweredRead, AskedPlace, Dialogue, Question, ReplayQuestions};
use rehal_base::{Error, Result, StatusCode};
use rehal_devices::{DeviceOptions, DeviceSpec};
use rehal_replay::{Replay, ReplayOptions};

use crate::capture;

/// Replays with these answers, and returns the questions.
fn replay(
    questions: ReplayQuestions,
    mut answer: impl FnMut(&Question) -> Result<Answer> + Send + 'static,
) -> (Vec<Question>, Result<()>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = asked.clone();
    let mut dialogue = Dialogue::new(questions, move |question| {
        kept.lock().unwrap().push(question.clone());
        answer(question)
    });
    let file = CaptureFile::open(&capture("mlp.mlp.local-sync"), &CaptureOptions::default()).unwrap();
    let plan = file.plan().unwrap();
    let devices = DeviceOptions::for_plan(&plan, DeviceSpec::find("local-sync").unwrap()).open().unwrap();
    let options = ReplayOptions::default().substitute(dialogue.substitute());
    let ran = Replay::new(plan, &devices, &options).and_then(|replay| {
        dialogue.begin(replay.plan())?;
        replay.run(&mut [&mut dialogue])?;
        dialogue.finish()
    });
    drop((dialogue, options));
    (Arc::into_inner(asked).unwrap().into_inner().unwrap(), ran)
}

fn questions(json: &str) -> ReplayQuestions {
    serde_json::from_str(json).unwrap()
}

/// A file in which answers ask for bytes.
fn target() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bytes");
    std::fs::write(&path, b"").unwrap();
    (directory, path)
}

fn read(buffer: u64, offset: u64, length: Option<u64>, to: &std::path::Path) -> Answer {
    Answer::Read(AnsweredRead { buffer, offset, length, to: to.to_owned() })
}

#[test]
fn it_asks_before_and_after_the_dispatches_of_a_function_with_their_bytes() {
    let (_directory, path) = target();
    let to = path.clone();
    let (asked, ran) = replay(questions(r#"{"before": "*_0_*", "after": "*_0_*"}"#), move |question| {
        Ok(match question {
            Question::Before(it) | Question::After(it) => read(it.bindings[0].buffer, 4, Some(8), &to),
            _ => Answer::Continue,
        })
    });
    ran.unwrap();
    let [
        Question::Before(before),
        Question::Copied { length: 8 },
        Question::After(after),
        Question::Copied { .. },
    ] = &asked[..]
    else {
        panic!("{asked:?}");
    };
    assert_eq!((before.record, before.function.as_str()), (17, "mlp_dispatch_0_matmul_8x48x32_f32"));
    assert_eq!((after.record, before.bindings.len()), (17, 3));
    assert_eq!(std::fs::read(path).unwrap().len(), 8);
}

#[test]
fn bytes_outside_of_a_buffer_are_refused_and_the_replay_continues() {
    let (_directory, path) = target();
    let mut wrong = [(1 << 40, 0, None), (6, 0, Some(1025)), (6, u64::MAX, Some(2))].into_iter();
    let (asked, ran) = replay(questions(r#"{"after": "*_0_*"}"#), move |_| {
        Ok(match wrong.next() {
            Some((buffer, offset, length)) => read(buffer, offset, length, &path),
            None => Answer::Continue,
        })
    });
    ran.unwrap();
    let codes = asked.iter().filter_map(|it| match it {
        Question::Refused { code, .. } => Some(code.as_str()),
        _ => None,
    });
    let codes: Vec<_> = codes.collect();
    assert_eq!(codes, ["NOT_FOUND", "OUT_OF_RANGE", "OUT_OF_RANGE"]);
}

#[test]
fn it_asks_about_host_reads_and_gives_only_their_bytes() {
    let (_directory, path) = target();
    let to = path.clone();
    let mut is_first = true;
    let (asked, ran) = replay(questions(r#"{"host_reads": true}"#), move |question| {
        Ok(match question {
            Question::HostRead(it) if std::mem::take(&mut is_first) => {
                read(it.buffer, it.offset, Some(it.length + 1), &to)
            }
            Question::Refused { .. } => read(17, 4, Some(4), &to),
            _ => Answer::Continue,
        })
    });
    ran.unwrap();
    assert!(matches!(&asked[1], Question::Refused { code, .. } if code == "OUT_OF_RANGE"), "{asked:?}");
    assert!(matches!(asked[2], Question::Copied { length: 4 }));
    assert_eq!(asked.iter().filter(|it| matches!(it, Question::HostRead(_))).count(), 4);
    assert_eq!(std::fs::read(path).unwrap().len(), 4);
}

#[test]
fn it_asks_at_a_place_and_ends_there() {
    let mut at = ReplayQuestions::default();
    at.at = Some(AskedPlace { record: 23, occurrence: 0 });
    let (asked, ran) = replay(at.clone(), |_| Ok(Answer::Continue));
    ran.unwrap();
    let [Question::At { buffers }] = &asked[..] else { panic!("{asked:?}") };
    assert!(buffers.contains(&(6, 1024)), "{buffers:?}");
    for place in [AskedPlace { record: 1, occurrence: 0 }, AskedPlace { record: 23, occurrence: 1 }] {
        at.at = Some(place);
        let (asked, ran) = replay(at.clone(), |_| Ok(Answer::Continue));
        assert_eq!((asked.len(), ran.unwrap_err().code()), (0, StatusCode::NotFound), "{place:?}");
    }
}

#[test]
fn an_answer_replaces_an_executable_and_an_error_ends_the_replay() {
    let (_directory, path) = target();
    let to = path.clone();
    let (asked, ran) = replay(questions(r#"{"executables": true}"#), move |_| {
        Ok(Answer::Replace { path: to.clone(), format: None, keeps_missing: false })
    });
    let [Question::Executable(it)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((it.id, it.format.as_str(), it.functions.len()), (4, "embedded-elf-x86_64", 5));
    // The file is empty.
    assert!(ran.is_err());
    let stop = |_: &Question| Err(Error::new(StatusCode::Aborted, "stop"));
    let (_, ran) = replay(questions(r#"{"after": "*"}"#), stop);
    assert_eq!(ran.unwrap_err().message(), "stop");
}
