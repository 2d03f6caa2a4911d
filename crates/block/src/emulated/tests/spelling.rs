//! The spelling: what it accepts, what it gives back, and what it says about mistakes.

use std::path::Path;

use proptest::prelude::*;

use crate::emulated::{EmulatedArraySpec, Level, Parameters, Preset};

fn parse(text: &str) -> EmulatedArraySpec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error_of(text: &str) -> String {
    text.parse::<EmulatedArraySpec>().expect_err(text).to_string()
}

#[test]
fn the_shortest_spelling_is_the_array_of_b1() {
    let spec = parse("emulated:disks=16,level=raid5,size=8G,file=/data/array image.raw");
    assert_eq!(spec.parameters, Preset::B1.parameters(8 << 30));
    assert_eq!(spec.file, Path::new("/data/array image.raw"));
}

#[test]
fn a_preset_can_be_changed_key_by_key() {
    let spec = parse(
        "emulated:preset=b9,size=1G,file=a=b,level=raid10,disks=8,chunk=256K,rpm=10000,seek-min=800us,seek-max=8.5ms,\
         rate=200MB,ncq=16,controller-cache=1G,disk-cache=off,span=1T",
    );
    let expected = Parameters {
        disks: 8,
        level: Level::Raid10,
        size_bytes: 1 << 30,
        span_bytes: 1 << 40,
        chunk_bytes: 256 << 10,
        rpm: 10_000,
        seek_min_us: 800,
        seek_max_us: 8500,
        rate: 200_000_000,
        ncq: 16,
        disk_cache_bytes: 0,
        controller_cache_bytes: 1 << 30,
    };
    assert_eq!(spec.parameters, expected);
    assert_eq!(spec.file, Path::new("a=b"));
}

#[test]
fn the_canonical_spelling_spells_everything_out() {
    assert_eq!(
        parse("emulated:preset=b1,size=11M,file=/f").to_string(),
        "emulated:disks=16,level=raid5,size=11M,file=/f,span=1000M,chunk=64K,rpm=7200,seek-min=850us,seek-max=16ms,\
         rate=175MB,ncq=32,disk-cache=16M,controller-cache=off"
    );
}

/// Found by fuzzing: the span of a preset was spelled as one that is refused.
#[test]
fn the_largest_array_spells_a_span_that_is_accepted() {
    let spec = parse("emulated:preset=b9,size=10000000000000000,file=a");
    assert_eq!(parse(&spec.to_string()), spec);
}

#[test]
fn a_mistake_names_the_key_and_what_is_allowed() {
    let with = |rest: &str| error_of(&format!("emulated:disks=16,level=raid5,size=8G,file=/f{rest}"));
    assert_eq!(
        with(",colour=red"),
        "an emulated array has no `colour`; it has preset, disks, level, size, file, span, chunk, rpm, seek-min, \
         seek-max, rate, ncq, disk-cache, controller-cache"
    );
    assert_eq!(with(",chunk=5K"), "`chunk=5K` of an emulated array: a power of two from 4K to 16M is expected");
    assert_eq!(with(",ncq="), "`ncq=` of an emulated array: a number from 1 to 256 is expected");
    assert_eq!(with(",size=1G"), "`size` of an emulated array is given twice");
    assert_eq!(with(","), "`` of an emulated array is not of the form KEY=VALUE");
    assert_eq!(
        with(",span=4G"),
        "`span=4G` of an emulated array: a size of at least size=, at most 65536T is expected"
    );
    assert_eq!(with(",seek-min=20ms"), "`seek-min=20ms` of an emulated array is more than `seek-max=16ms`");
    assert_eq!(with(",preset=b2"), "`preset=b2` of an emulated array: b1, b6 or b9 is expected");
}

#[test]
fn what_is_missing_is_named() {
    assert!(error_of("emulated:disks=16,level=raid5,file=/f").contains("needs `size=`"));
    assert!(error_of("emulated:disks=16,level=raid5,size=8G").contains("needs `file=`"));
    assert!(error_of("emulated:disks=16,size=8G,file=/f").contains("needs `level=`"));
    assert!(error_of("emulated:level=raid0,size=8G,file=/f").contains("needs `disks=`"));
    assert!(error_of("emulation:size=1").contains("is spelled `emulated:KEY=VALUE,...`"));
}

#[test]
fn an_array_that_cannot_be_built_is_refused() {
    let of = |disks: u32, level: &str| error_of(&format!("emulated:disks={disks},level={level},size=8G,file=/f"));
    assert!(of(2, "raid5").contains("raid5 needs 3 or more"));
    assert!(of(3, "raid6").contains("raid6 needs 4 or more"));
    assert!(of(5, "raid10").contains("raid10 needs an even number"));
    assert!(of(65, "raid5").contains("a number from 1 to 64"));
    assert!(of(8, "raid1").contains("raid0, raid5, raid6 or raid10"));
}

#[test]
fn sizes_and_times_out_of_range_are_refused() {
    for bad in
        ["size=0", "size=1000", "size=99999999T", "size=-1", "size=8Q", "size=1.5G", "size=18446744073709551615T"]
    {
        assert!(error_of(&format!("emulated:preset=b1,file=/f,{bad}")).contains("a multiple of 4K"), "{bad}");
    }
    for bad in ["1us", "1s", "8", "8.5us", "8.5555ms", "101ms", ".ms", "..5ms"] {
        let error = error_of(&format!("emulated:preset=b1,size=8G,file=/f,seek-max={bad}"));
        assert!(error.contains("a time from 10us to 100ms"), "{bad}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn the_canonical_spelling_means_the_same_array(
        size in 1_u64..1 << 28,
        span in 0_u64..1 << 50,
        preset in prop::sample::select(Preset::ALL.to_vec()),
        rate in 1_u64 << 20..10 << 30,
        seeks in (10_u64..5000, 5000_u64..100_000),
        controller_cache_bytes in prop_oneof![Just(0), 16_u64 << 20..1 << 40],
    ) {
        let size_bytes = size * 4096;
        let (seek_min_us, seek_max_us) = seeks;
        let base = preset.parameters(size_bytes);
        let span_bytes = size_bytes + span;
        let parameters = Parameters { span_bytes, seek_min_us, seek_max_us, rate, controller_cache_bytes, ..base };
        let spec = EmulatedArraySpec { parameters, file: "/some where/disk.img".into() };
        prop_assert_eq!(parse(&spec.to_string()), spec);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "emulated:[a-z0-9=,.GKTmsu-]{0,60}") {
        let _ = text.parse::<EmulatedArraySpec>();
    }
}
