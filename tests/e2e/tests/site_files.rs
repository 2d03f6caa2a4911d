//! Pools, volumes and settings as text: what is exported is applied without a change, and what a file says comes about.

use std::fs;
use std::path::Path;

use hotset_e2e::daemon::{Daemon, binary};
use hotset_e2e::files::MIB;
use hotset_e2e::tools::{command, skip, text};

const PLAYBOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/ansible/hotset.yml");

/// A site of two SSDs and two volumes, on a daemon that knows neither.
fn site(daemon: &Daemon) -> String {
    let image = |name: &str, mib: u64| daemon.site.blank(name, mib * MIB).display().to_string();
    format!(
        "[pool.quick]\ntype = \"read-write\"\nio-type = \"custom\"\nblock-size = \"64K\"\nssds = [{:?}, {:?}]\nflush-rate = \"high\"\n\
         dirty-age = \"10m\"\n\n[volume.data]\nbacking = {:?}\npool = \"quick\"\nmode = \"write-through\"\ndirty-cap = \"20%\"\n\n\
         [volume.plain]\nbacking = {:?}\nread-only = true\n",
        image("ssd0", 32),
        image("ssd1", 32),
        image("data.img", 8),
        image("plain.img", 4)
    )
}

fn write(daemon: &Daemon, name: &str, text: &str) -> String {
    let path = daemon.site.path(name);
    fs::write(&path, text).expect("a file can be written");
    path.display().to_string()
}

// proves: O2
#[test]
fn a_site_file_is_brought_about_once_and_what_is_exported_is_the_same_site() {
    let daemon = Daemon::start();
    let text = site(&daemon);
    let file = write(&daemon, "site.toml", &text);

    let looked = daemon.ok(&format!("apply {file} --dry-run"));
    for line in
        ["+ pool quick: read-write, custom", "~ pool quick: flush-rate", "+ volume data:", "+ volume plain:", "dry run"]
    {
        assert!(looked.contains(line), "{line}: {looked}");
    }
    assert!(daemon.ok("pool list").contains("No pools"), "a dry run changes nothing");

    assert!(daemon.ok(&format!("apply {file}")).contains("Done"));
    let pool = daemon.json("pool show quick");
    assert_eq!(
        (&pool["flush_rate"], &pool["dirty_age_max_seconds"], &pool["block_size_bytes"]),
        (&"high".into(), &600.into(), &65_536.into())
    );
    let volume = daemon.json("volume show data");
    assert_eq!((&volume["write_mode"], &volume["dirty_cap"]["percent"]), (&"write-through".into(), &20.into()));
    assert!(daemon.ok(&format!("apply {file}")).contains("Everything is already so"));

    let exported = write(&daemon, "exported.toml", &daemon.ok("export"));
    let applied = daemon.json(&format!("apply {exported}"));
    assert_eq!((&applied["changed"], &applied["left_alone"]), (&false.into(), &serde_json::json!([])), "{applied}");

    let text_of_export = daemon.ok("export");
    for (verb, what) in [("pool set quick", "pool"), ("volume set data", "volume")] {
        let said = daemon.refuse(&format!("{verb} colour=1"), 2, "the keys are");
        let keys = said.split("the keys are ").nth(1).and_then(|rest| rest.lines().next()).expect("it lists them");
        for key in keys.split(", ").map(str::trim) {
            assert!(
                text_of_export.contains(&format!("\n{key} = ")),
                "export lacks {key} of a {what}: {text_of_export}"
            );
        }
    }

    // A setting, a cache that goes, and a volume that the file does not name any more.
    let (kept, _) = text.split_once("[volume.plain]").expect("the site has it");
    let changed = kept
        .replace("\"high\"", "\"low\"")
        .replace("pool = \"quick\"\nmode = \"write-through\"\ndirty-cap = \"20%\"\n", "");
    let applied = daemon.ok(&format!("apply {}", write(&daemon, "changed.toml", &changed)));
    for line in [
        "~ pool quick: flush-rate high -> low",
        "- cache of volume data: pool quick",
        "volume plain is not in the file",
    ] {
        assert!(applied.contains(line), "{line}: {applied}");
    }
    assert_eq!(daemon.json("volume show data")["pool"], serde_json::Value::Null);
}

// proves: O2
#[test]
fn what_a_site_file_does_not_name_stays_and_what_is_so_is_not_changed_again() {
    let mut daemon = Daemon::start();
    let image = |name: &str, mib: u64| daemon.site.blank(name, mib * MIB).display().to_string();
    let (ssds, read_ssd, disk) = ([image("ssd0", 32), image("ssd1", 32)], image("ssd2", 32), image("disk", 8));
    // Names have characters that a path of HTTP has not.
    let pool = format!(
        "[pool.\"a<b>\"]\ntype = \"read-write\"\nio-type = \"database\"\nblock-size = \"64K\"\nssds = {ssds:?}\n"
    );
    let read_pool = format!(
        "[pool.r]\ntype = \"read\"\nio-type = \"custom\"\nblock-size = \"64K\"\nssds = [{read_ssd:?}]\ndirty-age = \"5m\"\n"
    );
    let volume = format!("[volume.v]\nbacking = {disk:?}\ndirty-cap = \"10%\"\n");
    let file = write(&daemon, "site.toml", &format!("{pool}fetch-rate = \"low\"\n{read_pool}{volume}"));
    daemon.ok(&format!("apply {file}"));
    let again = daemon.ok(&format!("apply {file}"));
    assert!(again.contains("Everything is already so"), "also where a setting has no effect: {again}");

    let threshold = |daemon: &Daemon| daemon.json("pool show a<b>")["populate_on_read"].clone();
    daemon.ok("pool set a<b> populate-on-read=4");
    let file = write(&daemon, "site.toml", &format!("{pool}fetch-rate = \"high\"\n"));
    let applied = daemon.ok(&format!("apply {file}"));
    assert!(applied.contains("fetch-rate low -> high") && !applied.contains("populate"), "{applied}");
    assert_eq!(threshold(&daemon), 4, "no file names it");
    let file = write(&daemon, "site.toml", &pool.replace("database", "file-system"));
    let applied = daemon.ok(&format!("apply {file}"));
    let told = format!("populate-on-read 4 -> {}", threshold(&daemon));
    assert!(applied.contains("io-type database -> file-system") && applied.contains(&told), "{told}: {applied}");

    // Of a pool that is not there nobody knows how it is set.
    daemon.stop();
    ssds.iter().for_each(|ssd| fs::remove_file(ssd).expect("it is there"));
    daemon.launch();
    let exported = daemon.ok("export");
    assert!(exported.contains("# Pool \"a<b>\" is left out: it is offline"), "{exported}");
    assert!(!exported.contains("[pool.\"a<b>\"]"), "{exported}");
    let applied = daemon.ok(&format!("apply {}", write(&daemon, "exported.toml", &exported)));
    assert!(applied.contains("Everything is already so"), "{applied}");
    let file = write(&daemon, "site.toml", &pool.replace("64K", "1M"));
    daemon.refuse(&format!("apply {file}"), 1, "line 1: pool a<b> is offline");
}

// proves: O2
#[test]
fn a_wrong_site_file_changes_nothing_and_what_fails_half_way_says_what_was_done() {
    let daemon = Daemon::start();
    let good = site(&daemon);
    for (wrong, parts) in [
        (good.replace("\"high\"", "\"fast\""), ["line 6: flush-rate of pool quick", "low, medium, high"]),
        (good.replace("flush-rate", "colour"), ["line 6: colour of pool quick", "no setting"]),
        (good.replace("pool = \"quick\"", "pool = \"slow\""), ["line 11: pool of volume data", "no pool slow"]),
        (good.replace("plain.img", "nowhere.img"), ["line 16: backing of volume plain", "nowhere.img"]),
        (good.replace("ssd1", "ssd9"), ["line 5: ssds of pool quick", "ssd9"]),
        (good.replace("dirty-age", "spares = [\"/nowhere\"]\ndirty-age"), ["line 7: spares of pool quick", "/nowhere"]),
        (good.replace("plain.img", "ssd0"), ["line 16: backing of volume plain", "ssd0"]),
        (good.replace("[volume.plain]", "[volume.plain"), ["line 15", ""]),
    ] {
        let file = write(&daemon, "wrong.toml", &wrong);
        let said = daemon.refuse(&format!("apply {file}"), 1, "Nothing was changed");
        parts.iter().for_each(|part| assert!(said.contains(part), "{part}: {said}"));
        assert!(
            daemon.ok("pool list").contains("No pools") && daemon.ok("volume list").contains("No volumes"),
            "{said}"
        );
    }
    daemon.ok(&format!("apply {}", write(&daemon, "site.toml", &good)));

    // What cannot change while it serves is said, with the verb that does it.
    let other = good.replace("\"64K\"", "\"1M\"").replace("read-only = true", "read-only = false");
    let said = daemon.refuse(&format!("apply {}", write(&daemon, "other.toml", &other)), 1, "Nothing was changed");
    for part in [
        "line 4: block-size of pool quick",
        "hotset pool convert quick",
        "line 17: read-only of volume plain",
        "volume delete plain",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }

    // What is too small, in use or twice in the file is told before anything is changed, all at once.
    let small = daemon.site.blank("small", MIB / 2).display().to_string();
    let used = daemon.site.path("ssd1").display().to_string();
    let late = daemon.site.blank("late.img", 4 * MIB).display().to_string();
    let added = good.replace("flush-rate = \"high\"", &format!("flush-rate = \"medium\"\nspares = [{small:?}]"));
    let taken = format!("{added}\n[volume.more]\nbacking = {used:?}\n");
    let said = daemon.refuse(&format!("apply {}", write(&daemon, "taken.toml", &taken)), 1, "Nothing was changed");
    assert!(said.contains("backing of volume more") && said.contains("is in ssds of pool quick already"), "{said}");
    let dry = daemon.refuse(
        &format!("apply {} --dry-run", write(&daemon, "small.toml", &added)),
        1,
        "line 7: spares of pool quick",
    );
    assert!(dry.contains(&small) && dry.contains("Nothing was changed"), "{dry}");
    assert_eq!(daemon.json("pool show quick")["flush_rate"], "high");

    // So is a setting that the volume cannot have: what the pool has is less than it is to be sure of.
    let grown = good.replace("flush-rate = \"high\"", "flush-rate = \"medium\"");
    let greedy = grown.replace("\"20%\"", "\"20%\"\ncache-min = \"1G\"");
    let said = daemon.refuse(&format!("apply {}", write(&daemon, "greedy.toml", &greedy)), 1, "Nothing was changed");
    assert!(said.contains("line 14: cache-min, cache-max of volume data"), "{said}");
    let one_ssd = good.replace(&format!(", {used:?}"), "");
    let said = daemon.refuse(&format!("apply {}", write(&daemon, "one.toml", &one_ssd)), 1, "Nothing was changed");
    assert!(said.contains("line 5: ssds of pool quick: two copies"), "{said}");
    if !Path::new("/dev/ublk-control").exists() && !Path::new("/sys/block/nbd0").exists() {
        let local = grown
            .replace("[volume.plain]", &format!("[volume.near]\nbacking = {late:?}\nlocal = \"on\"\n\n[volume.plain]"));
        let said = daemon.refuse(&format!("apply {}", write(&daemon, "local.toml", &local)), 1, "Nothing was changed");
        assert!(said.contains("line 17: local of volume near") && said.contains("no driver"), "{said}");
    }
    assert_eq!(daemon.json("pool show quick")["flush_rate"], "high");

    // So is a volume that the pool cannot keep its promise to, and an SSD that another pool has to give away first.
    let more = |pool: &str| {
        format!("[volume.late]\nbacking = {late:?}\npool = {pool:?}\ncache-min = \"1G\"\n\n[volume.plain]")
    };
    let joined = grown.replace("[volume.plain]", &more("quick"));
    let said = daemon.refuse(&format!("apply {}", write(&daemon, "joined.toml", &joined)), 1, "Nothing was changed");
    assert!(said.contains("line 15: cache-min, cache-max of volume late: volume late: cache-min of "), "{said}");
    let second = daemon.site.blank("ssd2", 32 * MIB).display().to_string();
    let pool =
        |ssd: &str| format!("[pool.second]\ntype = \"read\"\nio-type = \"custom\"\nssds = [{ssd:?}]\n\n[volume.data]");
    let moved = good.replace("[volume.data]", &pool(&used)).replace(&format!(", {used:?}"), "");
    let said = daemon.refuse(&format!("apply {}", write(&daemon, "moved.toml", &moved)), 1, "Nothing was changed");
    assert!(said.contains("is an SSD of pool quick, which has to be emptied first"), "{said}");

    // Of the steps one fails: of a pool that is not there yet the daemon cannot tell.
    let grown = grown.replace("[volume.data]", &pool(&second)).replace("[volume.plain]", &more("second"));
    let grown = format!("{grown}read-ahead = \"off\"\n");
    let said = daemon.refuse(&format!("apply {}", write(&daemon, "grown.toml", &grown)), 1, "This failed");
    let (failed, rest) = said.split_once("Done before:").expect("it says what was done");
    let (done, not_done) = rest.split_once("Not done:").expect("it says what was not");
    assert!(
        failed.contains("cache-min") && done.contains("flush-rate high -> medium") && not_done.contains("read-ahead"),
        "{said}"
    );
}

// proves: O2
#[test]
fn shares_and_pools_are_exchanged_in_one_apply() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    daemon.launch();
    let image = |name: &str, mib: u64| daemon.site.blank(name, mib * MIB).display().to_string();
    let (ssd0, ssd1, other) = (image("ssd0", 64), image("ssd1", 64), image("other", 64));
    let (a, b) = (image("a", 16), image("b", 16));
    let site = |pool_of_a: &str, a_min: &str, b_min: &str, spare_of: [&str; 2]| {
        format!(
            "[pool.p]\ntype = \"read-write\"\nio-type = \"custom\"\nblock-size = \"64K\"\nssds = [{ssd0:?}, {ssd1:?}]\nspares = [{}]\n\n\
             [pool.r]\ntype = \"read\"\nio-type = \"custom\"\nblock-size = \"64K\"\nssds = [{other:?}]\nspares = [{}]\n\n\
             [volume.a]\nbacking = {a:?}\npool = {pool_of_a:?}\nmode = {}\ncache-min = \"{a_min}%\"\n\n\
             [volume.b]\nbacking = {b:?}\npool = \"p\"\ncache-min = \"{b_min}%\"\n",
            spare_of[0],
            spare_of[1],
            if pool_of_a == "p" { "\"write-back\"" } else { "\"write-around\"" }
        )
    };
    let spare = format!("{:?}", image("spare", 64));
    let apply = |text: &str| daemon.ok(&format!("apply {}", write(&daemon, "site.toml", text)));
    apply(&site("p", "20", "60", [&spare, ""]));
    // In the order of the file, 120 % would be promised at first.
    apply(&site("p", "60", "20", [&spare, ""]));
    let min = |volume: &str| daemon.json(&format!("volume show {volume}"))["cache_min"]["percent"].clone();
    assert_eq!((min("a"), min("b")), (60.into(), 20.into()));
    // A spare goes to the other pool, and so does a volume, with settings that only the other pool takes.
    apply(&site("r", "90", "60", ["", &spare]));
    assert_eq!((&daemon.json("volume show a")["pool"], min("a")), (&"r".into(), 90.into()));
    assert_eq!(daemon.json("pool show r")["spares"].as_array().map(Vec::len), Some(1));
    // And not back again, where 60 % are promised already: it is told before its cache is flushed and gone.
    let text = site("p", "60", "60", ["", &spare]);
    daemon.refuse(&format!("apply {}", write(&daemon, "site.toml", &text)), 1, "Nothing was changed");
    assert_eq!(daemon.json("volume show a")["pool"], "r");

    // What a pool could promise with SSDs that it gets is not known before.
    let (third, c) = (image("third", 64), image("c", 16));
    let larger = site("r", "90", "20", ["", &spare]).replace(&format!("{ssd1:?}]"), &format!("{ssd1:?}, {third:?}]"));
    let promised = format!("{larger}\n[volume.c]\nbacking = {c:?}\npool = \"p\"\ncache-min = \"14M\"\n");
    apply(&promised);
    assert_eq!(daemon.json("volume show c")["cache_min"]["bytes"], 14 * MIB);

    // Where an SSD was that is gone, another one may be by now.
    daemon.stop();
    fs::rename(&other, format!("{other}.away")).expect("it can be renamed");
    daemon.site.blank("other", 64 * MIB);
    daemon.launch();
    let text = format!("[pool.p]\nspares = [{other:?}]\n");
    assert!(daemon.ok(&format!("apply {}", write(&daemon, "spare.toml", &text))).contains("+ spare"));
}

// proves: O5
#[test]
fn lists_have_the_columns_the_order_and_the_numbers_that_scripts_ask_for() {
    let daemon = Daemon::start();
    daemon.ok(&format!("apply {}", write(&daemon, "site.toml", &site(&daemon))));
    let listed = daemon.ok("volume list -o volume,size,pool --sort=-size --no-headings --bytes");
    assert_eq!(listed, "data   8388608  quick\nplain  4194304  -\n");
    assert!(daemon.ok("pool list -o pool,type").starts_with("POOL   TYPE\nquick  read-write\n"));
    daemon.refuse("volume list -o colour", 2, "the columns are volume, size");
    daemon.refuse("volume show data -o size", 2, "prints no list");
    assert_eq!(daemon.ok("stats data 1 2 -o volume --no-headings"), "data\ndata\n");
    let one = daemon.ok("status quick");
    assert!(one.starts_with("Pool quick:") && !one.contains("Daemon:"), "{one}");
    daemon.ok("status quick --check");
    daemon.refuse("status other", 1, "no such pool");
    let newest = daemon.ok("events --last 1");
    assert_eq!(newest.lines().count(), 1, "{newest}");
    assert!(daemon.ok("events --subject data --since 1h").lines().all(|line| line.contains("volume data")));
    assert_eq!(daemon.ok("events --severity error"), "");
    assert_eq!(daemon.ok("events --since 2999-01-01"), "");
}

// proves: O2
#[test]
fn the_playbook_brings_a_site_about_and_changes_nothing_the_second_time() {
    let Some(packages) = std::env::var_os("HOTSET_ANSIBLE") else {
        skip("HOTSET_ANSIBLE names no folder with ansible-core; `cargo x test` brings it");
        return;
    };
    let daemon = Daemon::start();
    let site = write(&daemon, "site.toml", &site(&daemon));
    let play = |more: &[&str]| {
        let variables = format!("hotset_program={} hotset_site={site}", binary().display());
        // Whatever other interpreters there are.
        let interpreter = r#"{"ansible_python_interpreter": "{{ ansible_playbook_python }}"}"#;
        let where_to = ["-m", "ansible", "playbook", "-i", "localhost,", "-c", "local"];
        let words = [&where_to[..], &["-e", &variables, "-e", interpreter, PLAYBOOK]].concat();
        let mut ansible = command("python3", &[&words[..], more].concat());
        ansible.env("PYTHONPATH", Path::new(&packages)).env("HOME", daemon.site.path("")).env("LC_ALL", "C.UTF-8");
        ansible.env("HOTSET_API", format!("unix:{}", daemon.api_socket().display()));
        let said = text(&ansible.output().expect("python3 can be started"));
        assert!(said.contains("failed=0"), "{said}");
        said
    };
    assert!(play(&["--check"]).contains("changed=1"));
    assert!(daemon.ok("pool list").contains("No pools"));
    assert!(play(&[]).contains("+ volume data"));
    assert!(daemon.is_online("data"));
    assert!(play(&[]).contains("changed=0"));
}
