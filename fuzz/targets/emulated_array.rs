//! The spelling of an emulated array: what is accepted makes an array and is spelled again as it is, nothing panics.
#![no_main]

use hotset_block::emulated::{ArrayModel, EmulatedArraySpec};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // The prefix is known; what follows is what has to be found out.
    let spelling = format!("emulated:{text}");
    assert!(EmulatedArraySpec::is_spelled_by(&spelling));
    if let Ok(spec) = spelling.parse::<EmulatedArraySpec>() {
        drop(ArrayModel::new(&spec.parameters));
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }
});
