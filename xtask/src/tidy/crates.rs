//! Uses go one way: hotset → serve → cache → block; hotset → api; sim → planted, block.

use serde_json::Value;

use super::Finding;

/// Which of our crates a crate may depend on, in whatever way (tests and build scripts included).
const MAY_USE: &[(&str, &[&str])] = &[
    ("hotset-block", &[]),
    // The table of what is counted, which all that count and show it share.
    ("hotset-counters", &[]),
    ("hotset-cache", &["hotset-block", "hotset-counters"]),
    ("hotset-cache-tests", &["hotset-cache", "hotset-block"]),
    ("hotset-cache-benches", &["hotset-cache", "hotset-block"]),
    ("hotset-serve", &["hotset-cache", "hotset-block"]),
    ("hotset-api", &["hotset-counters"]),
    ("hotset", &["hotset-serve", "hotset-cache", "hotset-block", "hotset-api", "hotset-counters"]),
    // The engine's sources with bugs, instead of the engine.
    ("hotset-cache-planted", &["hotset-block", "hotset-counters"]),
    ("hotset-sim", &["hotset-cache-planted", "hotset-block"]),
    // Drives the built binary, as a user would.
    ("hotset-e2e", &[]),
    ("xtask", &[]),
];

/// Every dependency that goes the wrong way, and every crate that has no place in the list.
pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours: Vec<_> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut findings = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = MAY_USE.iter().find(|(user, _)| *user == name) else {
            findings.push(finding(name, "this crate has no place in the direction of uses".to_owned()));
            continue;
        };
        let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
        for used in dependencies.iter().filter_map(|dependency| dependency["name"].as_str()) {
            if ours.contains(&used) && !allowed.contains(&used) {
                findings.push(finding(name, format!("it must not use {used}: uses go one way")));
            }
        }
    }
    findings
}

fn finding(name: &str, rule: String) -> Finding {
    Finding { place: format!("crate {name}"), rule }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace(user: &str, used: &str) -> Value {
        json!({"packages": [
            {"name": user, "dependencies": [{"name": used}, {"name": "libc"}]},
            {"name": "hotset-block", "dependencies": []},
            {"name": "hotset-sim", "dependencies": []},
        ]})
    }

    #[test]
    fn a_use_against_the_direction_is_found() {
        assert_eq!(check(&workspace("hotset-cache", "hotset-block")), []);
        let findings = check(&workspace("hotset-cache", "hotset-sim"));
        assert!(findings[0].rule.contains("must not use hotset-sim"), "{findings:?}");
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        assert_eq!(check(&workspace("hotset-utils", "hotset-block")).len(), 1);
    }
}
