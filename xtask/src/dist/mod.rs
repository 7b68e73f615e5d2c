//! `cargo xtask dist`: a Debian package, a tarball and a container file, of the release profile; a tarball of
//! the C library, of the profile `capi`, which unwinds, with the program; or a wheel. On Linux, all are built
//! for the same old C library of the system (`zig.rs`). macOS has a tarball.
//!
//! A package has the one program, completions, manual pages, the licence and the README. The links of IREE's
//! names are not in it, since a Python package of IREE may own them: `rehal tools --install DIR` makes them.
//! All files have the time of the commit, so that two runs write the same bytes.

use crate::portable::WINDOWS;
use crate::run::{self, succeed};
use crate::zig::{self, Zig, program_name};
use crate::{Outcome, packages, python, root};
use std::error::Error;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Names that completions of bash and fish are looked up by.
#[path = "../../../crates/cli/src/names.rs"]
mod names;

/// A system and its processor.
struct Platform {
    target: &'static str,
    /// As in the names of tarballs.
    name: &'static str,
    /// The name of the processor in Debian. Other systems have no packages of it, and no C library.
    debian: Option<&'static str>,
}

const PLATFORMS: [Platform; 5] = [
    Platform { target: "x86_64-unknown-linux-gnu", name: "x86_64-linux", debian: Some("amd64") },
    Platform { target: "aarch64-unknown-linux-gnu", name: "aarch64-linux", debian: Some("arm64") },
    Platform { target: "x86_64-apple-darwin", name: "x86_64-macos", debian: None },
    Platform { target: "aarch64-apple-darwin", name: "aarch64-macos", debian: None },
    Platform { target: WINDOWS, name: "x86_64-windows", debian: None },
];

impl Platform {
    /// Whether it is this machine's.
    fn is_host(&self) -> bool {
        self.debian.is_some() && self.target.starts_with(std::env::consts::ARCH)
    }
}

/// A package, and its place.
struct Dist {
    version: String,
    /// The program of this machine, which prints completions and manual pages.
    host: PathBuf,
    /// Seconds since 1970 of all files.
    time: String,
    to: PathBuf,
}

/// Builds and packages the program for each platform that has a standard library of Rust here.
pub fn main(arguments: &[String]) -> Outcome {
    let (mut profile, mut to) = ("release", root().join("target/dist"));
    let mut is_wheel = false;
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument {
            "--wheel" => is_wheel = true,
            "--profile" => profile = value()?,
            "--to" => to = value()?.into(),
            _ => {
                let expected = "--wheel, --profile NAME or --to DIR";
                return Err(format!("unknown argument {argument:?} (expected {expected})").into());
            }
        }
    }
    if is_wheel {
        return python::wheels(&to);
    }
    let version = packages::version(&root())?;
    fs::create_dir_all(&to)?;
    let zig = Zig::find()?;
    let build = |platform: &Platform| {
        let program = zig.build(platform.target, profile, &run::REHAL)?.join(program_name(platform.target));
        if platform.debian.is_some() {
            zig::needed_libc(&fs::read(&program)?)?;
        }
        Ok::<_, Box<dyn Error>>(program)
    };
    let host = PLATFORMS.iter().find(|it| it.is_host()).ok_or("packages are for other processors")?;
    let dist = Dist { version, host: build(host)?, time: commit_time(), to };
    for platform in &PLATFORMS {
        let program = if platform.is_host() { Ok(dist.host.clone()) } else { build(platform) };
        let program = match program {
            Ok(program) => program,
            Err(why) => {
                println!("dist: no package for {}: {why}", platform.target);
                continue;
            }
        };
        dist.package(platform, &program)?;
        if platform.debian.is_some() {
            let library = build_library(&zig, platform)?;
            println!("dist: {}", dist.library(platform, &library, &program)?.display());
        }
    }
    fs::write(dist.to.join("Containerfile"), include_str!("Containerfile"))?;
    println!("dist: {}", dist.to.join("Containerfile").display());
    Ok(())
}

/// Builds the C library. Returns the directory that it is in.
fn build_library(zig: &Zig, platform: &Platform) -> Result<PathBuf> {
    let built = zig.build(platform.target, "capi", &["--package", "rehal-capi", "--features", "vulkan"])?;
    zig::needed_libc(&fs::read(built.join("librehal_capi.so"))?)?;
    Ok(built)
}

/// The number in the soname of the C library, which the build script of its crate sets.
const INTERFACE: u32 = 0;

/// The system's libraries that the static library needs.
const SYSTEM_LIBRARIES: &str = "-lpthread -ldl -lm -lc -lgcc_s";

/// The time of the commit, or 0 without a repository.
fn commit_time() -> String {
    let git = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()).output();
    let time =
        git.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if time.is_empty() { "0".into() } else { time }
}

impl Dist {
    fn package(&self, platform: &Platform, program: &Path) -> Outcome {
        let work = self.to.join(format!("tree-{}", platform.name));
        let _ = fs::remove_dir_all(&work);
        if let Some(processor) = platform.debian {
            println!("dist: {}", self.deb(processor, program, &work.join("deb"))?.display());
        }
        let archive = match platform.target {
            WINDOWS => self.zip(platform, program, &work)?,
            _ => self.tarball(platform, program, &work)?,
        };
        println!("dist: {}", archive.display());
        Ok(fs::remove_dir_all(&work)?)
    }

    fn deb(&self, processor: &str, program: &Path, tree: &Path) -> Result<PathBuf> {
        let share = tree.join("usr/share");
        self.install(program, &tree.join("usr/bin"), &share)?;
        let doc = share.join("doc/rehal");
        copy(&root().join("LICENSE"), &doc.join("copyright"), 0o644)?;
        for page in fs::read_dir(share.join("man/man1"))? {
            succeed(Command::new("gzip").args(["-9", "--no-name"]).arg(page?.path()))?;
        }
        write(&tree.join("DEBIAN/control"), &self.control(processor, program)?)?;
        let deb = self.to.join(format!("rehal_{}_{processor}.deb", self.version));
        let mut dpkg = Command::new("dpkg-deb");
        dpkg.args(["--root-owner-group", "-Zxz", "--build"]).arg(tree).arg(&deb);
        succeed(dpkg.env("SOURCE_DATE_EPOCH", &self.time).stdout(std::process::Stdio::null()))?;
        Ok(deb)
    }

    fn control(&self, processor: &str, program: &Path) -> Result<String> {
        let bytes = fs::read(program)?;
        let libc = zig::needed_libc(&bytes)?;
        Ok(format!(
            "Package: rehal\nVersion: {}\nArchitecture: {processor}\nMaintainer: The authors of rehal <rehal@localhost>\n\
             Section: devel\nPriority: optional\nInstalled-Size: {}\nDepends: libc6 (>= {libc})\n\
             Recommends: libvulkan1\nSuggests: gcc, spirv-tools\n\
             Description: records, replays and profiles the work of accelerators\n \
             Replays, benchmarks, compares and tunes what a program submits to an accelerator. It reads and\n \
             writes the formats of IREE, and acts as its tools: rehal tools --install DIR links their names.\n",
            self.version,
            bytes.len().div_ceil(1024),
        ))
    }

    fn tarball(&self, platform: &Platform, program: &Path, work: &Path) -> Result<PathBuf> {
        let name = format!("rehal-{}-{}", self.version, platform.name);
        let tree = work.join(&name);
        self.install(program, &tree.join("bin"), &tree.join("share"))?;
        copy(&root().join("LICENSE"), &tree.join("LICENSE"), 0o644)?;
        self.archive(work, &name)
    }

    /// An archive of the program for Windows, with no others of its name in PATH: `rehal tools` makes those.
    fn zip(&self, platform: &Platform, program: &Path, work: &Path) -> Result<PathBuf> {
        let name = format!("rehal-{}-{}", self.version, platform.name);
        let tree = work.join(&name);
        copy(program, &tree.join(program_name(platform.target)), 0o755)?;
        for document in ["LICENSE", "README.md", "CHANGELOG.md"] {
            copy(&root().join(document), &tree.join(document), 0o644)?;
        }
        // The archive has the times of the files.
        let files = fs::read_dir(&tree)?.collect::<std::io::Result<Vec<_>>>()?;
        let paths = files.iter().map(fs::DirEntry::path).chain([tree.clone()]);
        succeed(Command::new("touch").arg(format!("--date=@{}", self.time)).args(paths))?;
        let zip = self.to.join(format!("{name}.zip"));
        let mut python = Command::new("python3");
        python.args(["-m", "zipfile", "-c"]).arg(&zip).arg(&tree);
        succeed(python.env("TZ", "UTC"))?;
        Ok(zip)
    }

    /// A tarball of the C library that was built to a directory, and of the program of its version. Its file
    /// for pkg-config finds the others by its own place, so that the tree may be anywhere.
    fn library(&self, platform: &Platform, built: &Path, program: &Path) -> Result<PathBuf> {
        let work = self.to.join("tree-library");
        let _ = fs::remove_dir_all(&work);
        let name = format!("librehal-{}-{}", self.version, platform.name);
        let tree = work.join(&name);
        let lib = tree.join("lib");
        let shared = format!("librehal.so.{INTERFACE}");
        copy(&built.join("librehal_capi.so"), &lib.join(format!("librehal.so.{}", self.version)), 0o755)?;
        symlink(format!("librehal.so.{}", self.version), lib.join(&shared))?;
        symlink(&shared, lib.join("librehal.so"))?;
        copy(&built.join("librehal_capi.a"), &lib.join("librehal.a"), 0o644)?;
        // Captured code runs in it, which the library finds by its own place, too.
        copy(program, &tree.join("bin/rehal"), 0o755)?;
        copy(&root().join("crates/capi/include/rehal.h"), &tree.join("include/rehal.h"), 0o644)?;
        copy(&root().join("LICENSE"), &tree.join("LICENSE"), 0o644)?;
        let description = format!(
            "prefix=${{pcfiledir}}/../..\nName: rehal\n\
             Description: records, replays and runs what programs give to accelerators (glibc {} or later)\n\
             Version: {}\nCflags: -I${{prefix}}/include\nLibs: -L${{prefix}}/lib -lrehal\nLibs.private: {SYSTEM_LIBRARIES}\n",
            zig::LIBC,
            self.version
        );
        write(&lib.join("pkgconfig/rehal.pc"), &description)?;
        let tarball = self.archive(&work, &name)?;
        fs::remove_dir_all(&work)?;
        Ok(tarball)
    }

    /// Packs the directory `name` in `work`.
    fn archive(&self, work: &Path, name: &str) -> Result<PathBuf> {
        let tarball = self.to.join(format!("{name}.tar.gz"));
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
        tar.arg(format!("--mtime=@{}", self.time)).arg("--use-compress-program=gzip --no-name");
        succeed(tar.arg("-cf").arg(&tarball).arg("-C").arg(work).arg(name))?;
        Ok(tarball)
    }

    /// Puts the program, completions, manual pages and documents where systems look for them.
    fn install(&self, program: &Path, bin: &Path, share: &Path) -> Outcome {
        copy(program, &bin.join("rehal"), 0o755)?;
        let completions = [
            ("bash", "bash-completion/completions", "rehal", ""),
            ("zsh", "zsh/vendor-completions", "_rehal", ""),
            ("fish", "fish/vendor_completions.d", "rehal", ".fish"),
        ];
        for (shell, directory, name, ending) in completions {
            let script = self.run(&["completions", shell])?;
            let file = format!("{name}{ending}");
            write(&share.join(directory).join(&file), &script)?;
            // These two look for a file by the name of the command; zsh reads the names in the file.
            if shell != "zsh" {
                for name in names::IREE_NAMES {
                    symlink(&file, share.join(directory).join(format!("{name}{ending}")))?;
                }
            }
        }
        let man = share.join("man/man1");
        fs::create_dir_all(&man)?;
        self.run(&["man", &format!("--to={}", man.display())])?;
        for page in fs::read_dir(&man)? {
            fs::set_permissions(page?.path(), fs::Permissions::from_mode(0o644))?;
        }
        for document in ["README.md", "CHANGELOG.md"] {
            copy(&root().join(document), &share.join("doc/rehal").join(document), 0o644)?;
        }
        Ok(())
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.host).args(arguments).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("rehal {}: {said}", arguments.join(" ")).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

fn write(path: &Path, text: &str) -> Outcome {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))?;
    Ok(())
}

fn copy(from: &Path, to: &Path, mode: u32) -> Outcome {
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

#[cfg(test)]
mod tests;
