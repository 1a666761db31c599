//! What the harness found wrong, by kind.

use std::fmt;

/// Faults shown in words; more are counted.
const SHOWN: usize = 20;

/// What is wrong; a run without any proves what it set out to.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Acknowledged and gone, or not the same any more.
    pub lost: u64,
    /// There more often than once.
    pub doubled: u64,
    /// A recovered state that is not the one the journal tells.
    pub hashes: u64,
    /// Anything else.
    pub others: u64,
    words: Vec<String>,
}

impl Faults {
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    pub fn count(&self) -> u64 {
        self.lost + self.doubled + self.hashes + self.others
    }

    pub fn lost(&mut self, what: String) {
        self.lost += 1;
        self.say("lost", what);
    }

    pub fn doubled(&mut self, what: String) {
        self.doubled += 1;
        self.say("doubled", what);
    }

    pub fn hash(&mut self, what: String) {
        self.hashes += 1;
        self.say("state", what);
    }

    pub fn other(&mut self, what: String) {
        self.others += 1;
        self.say("other", what);
    }

    /// Takes over what was found elsewhere.
    pub fn absorb(&mut self, other: Self) {
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.hashes += other.hashes;
        self.others += other.others;
        self.words.extend(other.words);
        self.words.truncate(SHOWN);
    }

    fn say(&mut self, kind: &str, what: String) {
        if self.words.len() < SHOWN {
            self.words.push(format!("{kind}: {what}"));
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words.iter().try_for_each(|word| writeln!(f, "{word}"))
    }
}
