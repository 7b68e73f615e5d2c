//! Substituted executables: accepted and rejected alike, with an observable effect.

use crate::replays::{refuses_well, run_with_reads, says_where};
use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::captures::{self, Capture, corpus};
use oracle::printed::{Array, Element};
use std::path::Path;

/// Name, capture, substitution (`{}` is the fixtures directory), and whether the reference supports the form.
const ACCEPTED: [(&str, &str, &str, bool); 5] = [
    ("all", "add4.add.local-sync", "all={}/modules/add4_swapped.elf", true),
    ("all_at_format", "add4.add.local-sync", "all@embedded-elf-x86_64={}/modules/add4_swapped.elf", true),
    ("all_system", "add4.syslib.local-sync", "all={}/modules/add4_swapped.syslib.so", true),
    ("by_name", "add4.add.local-sync", "add_dispatch_0_elementwise_4_f32={}/modules/add4_swapped.elf", false),
    (
        "system_for_embedded",
        "add4.add.local-sync",
        "all@system-elf-x86_64={}/modules/add4_swapped.syslib.so",
        true,
    ),
];

/// States that the compiled replacements need the workgroups of what they replace.
const SAME: &str = "--workgroup_count=same";

/// Modules whose executables are replaced, the replacements, and the sum of both tools.
const REWRITTEN: [(&str, &[&str], &str); 6] = [
    // One of the two functions of a linked executable.
    ("add4", &["--executable=add_dispatch_0={}/modules/add4_swapped.elf"], "4xf32=1100 2200 3300 4400"),
    ("add4", &["--executable=add_dispatch_0={}/modules/add4_swapped.syslib.so"], "4xf32=1100 2200 3300 4400"),
    (
        "add4.syslib",
        &["--executable=add_dispatch_0={}/modules/add4_swapped.elf"],
        "4xf32=1100 2200 3300 4400",
    ),
    ("add4", &["--executable=1={}/modules/add4_swapped.elf"], "4xf32=1100 2200 3300 4400"),
    ("add4.syslib", &["--executable=all={}/modules/add4_swapped.syslib.so"], "4xf32=1100 2200 3300 4400"),
    ("add4.memoized", &["--executable=all={}/modules/add4_swapped.elf"], "4xf32=1100 2200 3300 4400"),
];

/// Real models, whose functions are replaced by their own code.
const MODELS: [&str; 4] = ["basic_pitch", "magika", "ppocr_cls", "silero_vad"];

const REFUSED: [(&str, &str, &str); 4] = [
    ("other_architecture", "add4.add.local-sync", "all={}/modules/add4_swapped.aarch64.elf"),
    ("other_functions", "add4.add.local-sync", "all={}/cts/entry_points.embedded.elf"),
    ("no_such_file", "add4.add.local-sync", "all={}/modules/nothing.elf"),
    ("not_an_executable", "add4.add.local-sync", "all={}/recipe.toml"),
];

pub fn add(trials: &mut Vec<Trial>) {
    for (name, capture, substitution, known) in ACCEPTED {
        trials.push(Trial::test(format!("substitution::{name}"), move || {
            accepted(capture, substitution, known)
        }));
    }
    trials.push(Trial::test("substitution::by_id", by_id));
    trials.push(Trial::test("substitution::refused::of_nothing", of_nothing));
    trials.push(Trial::test("substitution::illegal_instruction", illegal_instruction));
    for (index, (name, arguments, wanted)) in REWRITTEN.into_iter().enumerate() {
        trials.push(Trial::test(format!("substitution::module::{index}::{name}"), move || {
            rewritten(name, arguments, wanted)
        }));
    }
    for name in MODELS.into_iter().filter(|_| corpus().is_some()) {
        trials.push(Trial::test(format!("substitution::models::{name}"), move || own_code(name)));
    }
    if corpus().is_some() {
        trials.push(Trial::test("substitution::models::tuned", tuned_model));
    }
    for (name, capture, substitution) in REFUSED {
        trials.push(Trial::test(format!("substitution::refused::{name}"), move || {
            refused(capture, substitution)
        }));
    }
}

/// The fixture with this name.
pub fn find(name: &str) -> Result<Capture, Failed> {
    let wanted = format!("fixtures/{name}");
    let found = captures::all()?.into_iter().find(|capture| capture.name == wanted);
    Ok(found.ok_or_else(|| format!("no fixture {wanted}"))?)
}

fn arguments(capture: &Capture, substitution: &str) -> Vec<String> {
    let value = substitution.replace("{}", fixture("").display().to_string().trim_end_matches('/'));
    vec![
        "--device=local-sync".to_owned(),
        format!("--replay_executable_substitution={value}"),
        capture.path.display().to_string(),
    ]
}

fn accepted(name: &str, substitution: &str, known: bool) -> Outcome {
    let pair = Pair::find("iree-run-replay")?;
    let capture = find(name)?;
    let arguments = arguments(&capture, substitution);
    if known {
        let theirs = oracle::tool::run(&pair.theirs, &arguments, &capture.directory)?;
        ensure(theirs.succeeded(), || format!("the reference rejects it: {}", theirs.summary()))?;
    }
    // The reference does not ask how many workgroups the replacement needs.
    let arguments = arguments.into_iter().chain([SAME.to_owned()]).collect();
    let (ours, reads) = run_with_reads(&pair, &capture, arguments)?;
    ensure(ours.succeeded(), || format!("ours ends with {}", ours.summary()))?;
    // (1 2 3 4 + 10 20 30 40) * 100 is the result of add4_swapped on the captured inputs.
    let values = ["1100", "2200", "3300", "4400"].map(ToOwned::to_owned).to_vec();
    let wanted = Array { element: Element::F32, count: 4, values };
    let seen = reads.iter().any(|read| wanted.is_in(read));
    ensure(seen, || format!("the substituted result is not in the reads: {reads:?}"))
}

/// The reference runs a module that we have rewritten, and so do we.
fn rewritten(module: &str, replacements: &[&str], wanted: &str) -> Outcome {
    let pair = Pair::find("iree-run-module")?;
    let rehal = pair.ours.with_file_name("rehal");
    let directory = tempfile::tempdir()?;
    let output = directory.path().join("new.vmfb");
    let fixtures = fixture("").display().to_string();
    let replacements = replacements.iter().map(|it| it.replace("{}", fixtures.trim_end_matches('/')));
    let input = fixture(&format!("modules/{module}.vmfb")).display().to_string();
    let arguments: Vec<_> = ["substitute".to_owned(), input]
        .into_iter()
        .chain(replacements)
        .chain([SAME.to_owned(), "-o".to_owned(), output.display().to_string()])
        .collect();
    let ended = oracle::tool::run(&rehal, &arguments, directory.path())?;
    ensure(ended.succeeded(), || format!("substitute ends with {}", ended.summary()))?;
    let run = ["--device=local-sync", "--function=add", "--input=4xf32=1 2 3 4", "--input=4xf32=10 20 30 40"];
    let module = format!("--module={}", output.display());
    let run: Vec<_> = run.map(str::to_owned).into_iter().chain([module]).collect();
    for tool in [&pair.theirs, &pair.ours] {
        let ended = oracle::tool::run(tool, &run, directory.path())?;
        let text = String::from_utf8_lossy(&ended.stdout);
        ensure(ended.succeeded() && text.contains(wanted), || {
            format!("{} prints {text}, {}", tool.display(), ended.summary())
        })?;
    }
    Ok(())
}

/// The first, a middle and the last function of a linked model, one at a time: the code is another copy, in a
/// segment of its own, and the outputs are the same bytes.
fn own_code(name: &str) -> Outcome {
    let pair = Pair::find("iree-run-module")?;
    let rehal = pair.ours.with_file_name("rehal");
    let directory = corpus().ok_or("no corpus")?.join("models").join(name);
    let scratch = tempfile::tempdir()?;
    let at = |file: &str| scratch.path().join(file).display().to_string();
    let module = directory.join("m.vmfb").display().to_string();
    let run = |tool: &Path, arguments: &[String]| -> Result<String, Failed> {
        let ended = oracle::tool::run(tool, arguments, scratch.path())?;
        ensure(ended.succeeded(), || format!("{arguments:?} ends with {}", ended.summary()))?;
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    };
    let files = |stem: &'static str| (0..).map(move |index| format!("{stem}{index}.npy"));
    let present =
        |stem: &'static str| files(stem).take_while(|it| directory.join(it).exists()).collect::<Vec<_>>();
    let mut arguments = vec!["--device=local-task".to_owned()];
    let parameters = directory.join("m.irpa");
    arguments.extend(parameters.exists().then(|| format!("--parameters=model={}", parameters.display())));
    arguments.extend(present("in").iter().map(|it| format!("--input=@{}", directory.join(it).display())));
    let outputs: Vec<_> = files("out").take(present("iree").len()).map(|it| at(&it)).collect();
    arguments.extend(outputs.iter().map(|it| format!("--output=@{it}")));
    let results = |tool: &Path, module: &str| -> Result<Vec<u8>, Failed> {
        run(tool, &[&[format!("--module={module}")], &arguments[..]].concat())?;
        Ok(outputs.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?.concat())
    };
    let own = [results(&pair.ours, &module)?, results(&pair.theirs, &module)?];
    let listed = run(&rehal, &["executables".into(), module.clone(), format!("--binaries_to={}", at("b"))])?;
    let rows = listed.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows: Vec<_> = rows.filter(|row| row.first() == Some(&"1")).collect();
    let code = format!("{}/{}", at("b"), rows.first().and_then(|row| row.last()).ok_or("no executable")?);
    for index in [0, rows.len() / 2, rows.len() - 1] {
        let function = rows[index][1];
        let replaced = format!("--executable={function}={code}");
        run(&rehal, &["substitute".into(), module.clone(), replaced, "-o".into(), at("new.vmfb")])?;
        let new = [results(&pair.ours, &at("new.vmfb"))?, results(&pair.theirs, &at("new.vmfb"))?];
        ensure(new == own, || format!("'{function}' of another segment computes something else"))?;
    }
    Ok(())
}

/// The convolution that takes most of the time of a model, in the order of operations of the compiler's code.
const CONVOLUTION: &str = "
  const float *x = binding_0 + 3072 / 4, *w = binding_1 + 0x12c80 / 4;
  float *out = binding_2 + 0x80c00 / 4;
  const uint64_t blocks = (uint64_t)dispatch->workgroup_count_x * dispatch->workgroup_count_y;
  for (uint64_t b = workgroup->id_y * (uint64_t)dispatch->workgroup_count_x + workgroup->id_x; b < 64; b += blocks)
    for (int at = 0; at < 508; at += WIDTH) {
      const int first = at + WIDTH <= 508 ? at : 508 - WIDTH;
      float sums[8][WIDTH] = {{0}};
      for (int i = 0; i < 256; ++i)
        for (int k = 0; k < 5; ++k)
          for (int o = 0; o < 8; ++o) {
            const float factor = w[(b * 8 + o) * 1280 + i * 5 + k], *from = x + i * 512 + k + first;
            for (int p = 0; p < WIDTH; ++p) sums[o][p] = __builtin_fmaf(from[p], factor, sums[o][p]);
          }
      for (int o = 0; o < 8; ++o)
        for (int p = 0; p < WIDTH; ++p) out[(b * 8 + o) * 508 + first + p] = sums[o][p];
    }
  return 0;
}
";

/// From a capture of a model to a faster kernel in it: the best of a search of C is a file that goes into the
/// module, which the reference runs with the same outputs.
fn tuned_model() -> Outcome {
    const FUNCTION: &str = "tf2onnx$async_dispatch_5_conv_512x508x256x5_f32";
    let pair = Pair::find("iree-run-module")?;
    let rehal = pair.ours.with_file_name("rehal");
    let directory = corpus().ok_or("no corpus")?.join("models/magika");
    let scratch = tempfile::tempdir()?;
    let at = |file: &str| scratch.path().join(file).display().to_string();
    let run = |tool: &Path, arguments: &[&str]| -> Result<String, Failed> {
        let arguments: Vec<_> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let ended = oracle::tool::run(tool, &arguments, scratch.path())?;
        ensure(ended.succeeded(), || format!("{arguments:?} ends with {}", ended.summary()))?;
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    };
    let module = directory.join("m.vmfb").display().to_string();
    let input = format!("--input=@{}", directory.join("in0.npy").display());
    let own =
        [&format!("--module={module}"), "--device=local-sync", &input, "--device_replay_output=c.ireereplay"];
    run(&pair.theirs, &own)?;
    let function = format!("--function={FUNCTION}");
    run(&rehal, &["kernel", "stub", &function, "c.ireereplay", "-o", "stub.c"])?;
    let stub = std::fs::read_to_string(at("stub.c"))?;
    let (start, rest) = stub.split_once("  // This workgroup's share").ok_or("another stub")?;
    let (_, library) = rest.split_once("// ---- The library").ok_or("another stub")?;
    std::fs::write(at("conv.c"), format!("{start}{CONVOLUTION}// ---- The library{library}"))?;
    let space = "base = \"conv.c\"\n[[axis]]\nmacro = \"WIDTH\"\nvalues = [32]\n";
    std::fs::write(at("space.toml"), space)?;
    let tune =
        ["tune", "--device=local-sync", &function, "--space=space.toml", "--best=best.c", "c.ireereplay"];
    // Most of its time is saved, so that this is proved on any machine.
    run(&rehal, &tune)?;
    let replaced = format!("--executable={FUNCTION}=best.c");
    run(&rehal, &["substitute", &module, &replaced, "-o", "new.vmfb"])?;
    for tool in [&pair.theirs, &pair.ours] {
        run(tool, &["--module=new.vmfb", "--device=local-task", &input, "--output=@o.npy"])?;
        let same = std::fs::read(at("o.npy"))? == std::fs::read(directory.join("iree0.npy"))?;
        ensure(same, || format!("{} computes something else", tool.display()))?;
    }
    Ok(())
}

/// The executable's id comes from the dump, like a user would find it.
fn by_id() -> Outcome {
    let capture = find("add4.add.local-sync")?;
    let dump = Pair::find("iree-dump-replay")?;
    let said = oracle::tool::run(&dump.theirs, &[capture.path.display().to_string()], &capture.directory)?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let line = text
        .lines()
        .find(|line| line.contains("op=executable_cache.prepare_executable"))
        .ok_or("no executable")?;
    let id = line.split(" rel=").nth(1).and_then(|rest| rest.split(' ').next()).ok_or("no id")?;
    accepted("add4.add.local-sync", &format!("{id}={{}}/modules/add4_swapped.elf"), true)
}

/// The reference silently ignores a substitution for an executable that is not in the capture; ours rejects
/// it.
fn of_nothing() -> Outcome {
    let capture = find("add4.add.local-sync")?;
    let arguments = arguments(&capture, "12345={}/modules/add4_swapped.elf");
    let ours = oracle::tool::run(&oracle::tool::ours("iree-run-replay")?, &arguments, &capture.directory)?;
    refuses_well(&ours)?;
    let said = String::from_utf8_lossy(&ours.stderr).into_owned();
    ensure(said.contains("12345") && said.contains("add_dispatch_0"), || {
        format!("the available executables are not listed: {said}")
    })
}

/// A kernel with an instruction that this processor lacks: theirs is killed by the signal, ours names the
/// kernel.
fn illegal_instruction() -> Outcome {
    let capture = find("add4.add.local-sync")?;
    let arguments = arguments(&capture, "all={}/cts/illegal.so");
    let (ours, theirs) = Pair::find("iree-run-replay")?.run(&arguments, &capture.directory)?;
    ensure(theirs.signal == Some(4), || format!("theirs ends with {}", theirs.summary()))?;
    says_where(&ours, "SIGILL", "add_dispatch_0")
}

fn refused(name: &str, substitution: &str) -> Outcome {
    let capture = find(name)?;
    let (ours, theirs) =
        Pair::find("iree-run-replay")?.run(&arguments(&capture, substitution), &capture.directory)?;
    ensure(!theirs.succeeded(), || "the reference accepts it".to_owned())?;
    refuses_well(&ours)
}
