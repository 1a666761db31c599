//! Components that do not do as the contract says, written as core modules by hand.

use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// What a hand-written verifier does.
pub struct Liar {
    /// What `describe` does before it answers.
    pub describe: &'static str,
    /// What `verify` does before it answers.
    pub verify: &'static str,
    pub name: &'static str,
    /// The signal that the manifest names.
    pub declared: &'static str,
    /// The weight that the manifest gives it.
    pub declared_weight: f64,
    /// The signal that the verdict gives.
    pub given: &'static str,
    pub score: f64,
    pub weight: f64,
}

impl Default for Liar {
    fn default() -> Self {
        Self {
            describe: "",
            verify: "",
            name: "liar",
            declared: "truth",
            declared_weight: 1.0,
            given: "truth",
            score: 0.5,
            weight: 1.0,
        }
    }
}

impl Liar {
    /// The core module, with the world `verifier` of the contract embedded.
    pub fn module(&self) -> Vec<u8> {
        let mut module = wat::parse_str(self.text()).unwrap();
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/verifiers/wit")).unwrap();
        let world = resolve.select_world(&[package], Some("verifier")).unwrap();
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
        module
    }

    // Records are laid out as the canonical ABI says: the manifest at 1024, the verdict at 2048, its signal at 2304.
    fn text(&self) -> String {
        let Self { describe, verify, name, declared, declared_weight, given, score, weight } = self;
        let string =
            |text: &str, at: u32| format!("{}{}", bytes(&at.to_le_bytes()), bytes(&(text.len() as u32).to_le_bytes()));
        let manifest = [
            string(name, 3072),
            string("1", 3200),
            string("", 0),
            format!("{}{}", bytes(&1536_u32.to_le_bytes()), bytes(&1_u32.to_le_bytes())),
            string("", 0),
            bytes(&[1]),
        ]
        .concat();
        let spec = [string(declared, 3328), bytes(&declared_weight.to_le_bytes()), string("", 0)].concat();
        let verdict = [
            bytes(&[0; 8]),
            bytes(&score.to_le_bytes()),
            bytes(&1_f64.to_le_bytes()),
            format!("{}{}", bytes(&2304_u32.to_le_bytes()), bytes(&1_u32.to_le_bytes())),
            string("", 0),
        ]
        .concat();
        let signal =
            [string(given, 3456), bytes(&score.to_le_bytes()), bytes(&weight.to_le_bytes()), string("", 0)].concat();
        let texts = [(3072, *name), (3200, "1"), (3328, *declared), (3456, *given)];
        let texts: String = texts.iter().map(|(at, text)| format!("(data (i32.const {at}) \"{text}\")\n")).collect();
        format!(
            r#"(module
            (memory (export "memory") 16)
            (global $next (mut i32) (i32.const 65536))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (local $at i32)
                (local.set $at (global.get $next))
                (global.set $next (i32.and (i32.add (i32.add (global.get $next) (local.get 3)) (i32.const 15)) (i32.const -16)))
                (local.get $at))
            (func (export "pointsman:verifier/verify@0.1.0#describe") (result i32) {describe} (i32.const 1024))
            (func (export "pointsman:verifier/verify@0.1.0#verify")
                (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64) (result i32) {verify} (i32.const 2048))
            {texts}
            (data (i32.const 1024) "{manifest}")
            (data (i32.const 1536) "{spec}")
            (data (i32.const 2048) "{verdict}")
            (data (i32.const 2304) "{signal}"))"#
        )
    }
}

fn bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:02x}")).collect()
}
