//! What SSDs are and how they say they are: the second table of `pool show`.

use hotset_api::{Smart, Ssd, SsdIdentity};

use super::table::Table;
use crate::clock::unix_ms;
use crate::size::human;

const DAY_MS: u64 = 24 * 3600 * 1000;

pub(super) fn table(ssds: &[Ssd]) -> String {
    let now_unix_ms = unix_ms();
    let mut table = Table::new(&["SSD", "HEALTH", ">WEAR", "WORN OUT", ">WRITTEN, ALL STARTS", "DRIVE", "LINK", "BAY"]);
    for ssd in ssds {
        table.row(vec![
            ssd.path.clone(),
            ssd.health.word().to_owned(),
            ssd.smart.wear_percent.map_or_else(|| "unknown".to_owned(), |percent| format!("{percent} %")),
            worn_out(&ssd.smart, now_unix_ms),
            human(ssd.smart.cache_written_bytes),
            drive(&ssd.identity),
            joined(" ", &[&ssd.identity.transport, &ssd.identity.link_speed]),
            joined(" ", &[&ssd.identity.enclosure, &ssd.identity.slot]),
        ]);
    }
    let mut text = table.render();
    for ssd in ssds.iter().filter(|ssd| !ssd.smart.problem.is_empty()) {
        text.push_str(&format!("{}: not all is known: {}\n", ssd.path, ssd.smart.problem));
    }
    text
}

/// In days from now.
fn worn_out(smart: &Smart, now_unix_ms: u64) -> String {
    let Some(at) = smart.worn_out_at_unix_ms else { return "unknown".to_owned() };
    match at.saturating_sub(now_unix_ms) / DAY_MS {
        0 => "now".to_owned(),
        days => format!("in {days} days"),
    }
}

fn drive(identity: &SsdIdentity) -> String {
    let SsdIdentity { manufacturer, model, serial, firmware, .. } = identity;
    // Many models begin with their maker's name.
    let maker = if model.starts_with(manufacturer.as_str()) { "" } else { manufacturer };
    let called = |what: &str, value: &str| if value.is_empty() { String::new() } else { format!("{what} {value}") };
    joined(", ", &[&joined(" ", &[maker, model]), &called("serial", serial), &called("firmware", firmware)])
}

fn joined(between: &str, parts: &[&str]) -> String {
    let said: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    said.join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: P10
    #[test]
    fn a_drive_is_told_by_its_model_once_and_its_end_in_days() {
        let identity = SsdIdentity {
            manufacturer: "ACME".to_owned(),
            model: "ACME Fast".to_owned(),
            serial: "S1".to_owned(),
            ..SsdIdentity::default()
        };
        assert_eq!(drive(&identity), "ACME Fast, serial S1");
        let nameless = SsdIdentity { model: String::new(), manufacturer: String::new(), ..identity.clone() };
        assert_eq!(drive(&nameless), "serial S1");
        assert_eq!(drive(&SsdIdentity { manufacturer: "Other".to_owned(), ..identity }), "Other ACME Fast, serial S1");
        // It is not asked while it is offline.
        let smart = Smart { checked_at_unix_ms: 0, worn_out_at_unix_ms: Some(4 * DAY_MS), ..Smart::default() };
        assert_eq!(worn_out(&smart, DAY_MS), "in 3 days");
        assert_eq!(worn_out(&Smart { worn_out_at_unix_ms: Some(0), ..smart.clone() }, DAY_MS), "now");
        assert_eq!(worn_out(&Smart { worn_out_at_unix_ms: None, ..smart }, DAY_MS), "unknown");
    }
}
