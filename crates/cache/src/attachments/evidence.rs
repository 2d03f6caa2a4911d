//! What speaks for and against a backing device's being the one on record, and as it was left.

use hotset_block::Likeness;

/// Of one backing device. Nothing is changed by looking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackingEvidence {
    pub size_bytes_before: u64,
    pub size_bytes: u64,
    /// What the device was called when it was seen last.
    pub identity_before: String,
    pub identity: String,
    pub likeness: Likeness,
    /// Fingerprint pages that are as they were.
    pub matching: usize,
    /// Of them, those that are not all zeroes: blank devices are alike.
    pub telling: usize,
    /// First bytes of the fingerprint pages that are not as they were.
    pub changed: Vec<u64>,
    /// Fingerprint pages that hosts may have written to since they were seen: they say nothing.
    pub unsettled: usize,
    /// Whether it was written to since a clean stop in this boot; `None` where its mark says nothing.
    pub written: Option<bool>,
}

impl BackingEvidence {
    /// Why the device is not believed to be the one on record, or not as it was; `None` if nothing speaks against it.
    pub fn against(&self) -> Option<String> {
        if self.size_bytes != self.size_bytes_before {
            return Some(format!("its size was {} bytes and is {} bytes", self.size_bytes_before, self.size_bytes));
        }
        let doubtful = match self.likeness {
            Likeness::Same => false,
            Likeness::Unknown => self.telling == 0,
            Likeness::Other => true,
        };
        if doubtful {
            return Some(format!("it was {:?} and is {:?}", self.identity_before, self.identity));
        }
        if self.written == Some(true) {
            return Some("it was written to while Hotset was stopped".to_owned());
        }
        let first = self.changed.first()?;
        Some(format!("its bytes at {first} were changed while Hotset was not running"))
    }

    /// Whether more than its name speaks against it: what is on it is not what was there.
    pub fn is_grave(&self) -> bool {
        self.size_bytes != self.size_bytes_before
            || !self.changed.is_empty()
            || self.written == Some(true)
            || self.telling == 0 && self.likeness != Likeness::Same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> BackingEvidence {
        BackingEvidence {
            size_bytes_before: 4096,
            size_bytes: 4096,
            identity_before: "a".into(),
            identity: "b".into(),
            likeness: Likeness::Unknown,
            matching: 3,
            telling: 1,
            changed: Vec::new(),
            unsettled: 2,
            written: None,
        }
    }

    // proves: F8
    #[test]
    fn a_name_that_proves_nothing_is_believed_only_with_what_is_on_the_device() {
        assert_eq!(sound().against(), None);
        let blank = BackingEvidence { telling: 0, ..sound() };
        assert!(blank.against().is_some() && blank.is_grave(), "any two blank devices are alike");
        let changed = BackingEvidence { changed: vec![4096], ..sound() };
        assert!(changed.against().unwrap().contains("4096") && changed.is_grave());
    }

    // proves: F8
    #[test]
    fn another_name_speaks_against_a_device_and_is_not_grave_if_all_else_is_as_it_was() {
        let other = BackingEvidence { likeness: Likeness::Other, ..sound() };
        assert!(other.against().is_some() && !other.is_grave());
        assert!(BackingEvidence { size_bytes: 8192, ..other }.is_grave());
    }
}
