//! What `smartctl --json` printed, read as far as it matters here. It knows no process and no file.
//!
//! The keys are those of smartctl 7.0 and newer; whatever is missing or of another type is unknown, never an error by
//! itself.

use serde_json::Value;

/// A data unit of an NVMe drive's counters: a thousand blocks of 512 bytes (NVM Express Base Specification 2.0, figure 207).
const NVME_DATA_UNIT_BYTES: u64 = 512_000;

/// Bits 0 and 1 of smartctl's exit status: it was called wrongly, or could not open the device (smartctl(8), "EXIT STATUS").
const NOTHING_WAS_READ: u64 = 0b11;

/// The bits of an NVMe drive's critical warning (NVM Express Base Specification 2.0, figure 207).
const CRITICAL_WARNINGS: [&str; 6] = [
    "its spare blocks are nearly used up",
    "it is too hot or too cold",
    "its reliability is degraded by errors",
    "it has become read-only",
    "its backup of volatile memory has failed",
    "its persistent memory region has become read-only",
];

/// Vendors' attributes that count the life that is left down from 100, in the normalized value.
const LIFE_LEFT_ATTRIBUTES: [&str; 5] = [
    "Wear_Leveling_Count",
    "SSD_Life_Left",
    "Media_Wearout_Indicator",
    "Percent_Lifetime_Remain",
    "Remaining_Lifetime_Perc",
];

/// What a drive says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DriveReport {
    /// Empty where the drive does not say; so are the next ones.
    pub(super) manufacturer: String,
    pub(super) model: String,
    pub(super) serial: String,
    pub(super) firmware: String,
    pub(super) link_speed: String,
    pub(super) passed: Option<bool>,
    pub(super) wear_percent: Option<u16>,
    pub(super) temperature_celsius: Option<i16>,
    pub(super) power_on_hours: Option<u64>,
    pub(super) written_bytes: Option<u64>,
    /// One line for each bit of an NVMe drive's critical warning.
    pub(super) critical: Vec<String>,
}

impl DriveReport {
    /// # Errors
    /// Why nothing could be learnt, for people.
    pub(super) fn parse(output: &[u8]) -> Result<Self, String> {
        let root: Value = serde_json::from_slice(output).map_err(|error| format!("smartctl's output: {error}"))?;
        let status = number(&root, "/smartctl/exit_status").ok_or("smartctl's output names no exit status")?;
        if status & NOTHING_WAS_READ != 0 {
            return Err(failure(&root, status));
        }
        Ok(Self {
            manufacturer: text(&root, &["/scsi_vendor", "/vendor"]),
            model: text(&root, &["/model_name", "/scsi_model_name", "/scsi_product"]),
            serial: text(&root, &["/serial_number"]),
            firmware: text(&root, &["/firmware_version", "/scsi_revision", "/revision"]),
            link_speed: link_speed(&root),
            passed: root.pointer("/smart_status/passed").and_then(Value::as_bool),
            wear_percent: wear_percent(&root),
            temperature_celsius: root
                .pointer("/temperature/current")
                .and_then(Value::as_i64)
                .and_then(|celsius| i16::try_from(celsius).ok()),
            power_on_hours: number(&root, "/power_on_time/hours"),
            written_bytes: written_bytes(&root),
            critical: critical(&root),
        })
    }

    /// What it warns of, in one line; empty if nothing.
    pub(super) fn alert(&self) -> String {
        let mut said = Vec::new();
        if self.passed == Some(false) {
            said.push("it says of itself that it is failing".to_owned());
        }
        said.extend(self.critical.iter().cloned());
        if let Some(percent) = self.wear_percent.filter(|percent| *percent >= 100) {
            said.push(format!("it is worn out: it has taken {percent} % of the writes that it was made for"));
        }
        said.join("; ")
    }
}

fn failure(root: &Value, status: u64) -> String {
    let messages = root.pointer("/smartctl/messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let said: Vec<&str> =
        messages.iter().filter_map(|message| message.pointer("/string").and_then(Value::as_str)).collect();
    match said.is_empty() {
        true => format!("smartctl ended with status {status}"),
        false => format!("smartctl: {}", said.join("; ")),
    }
}

/// Of the drive itself, or of the first port of a SAS drive that is linked.
fn link_speed(root: &Value) -> String {
    let of_sata = text(root, &["/interface_speed/current/string"]);
    if !of_sata.is_empty() {
        return of_sata;
    }
    for port in 0..2 {
        // "phy enabled; 12 Gbps"; without a link "phy enabled; unknown".
        let rate = text(root, &[&format!("/scsi_sas_port_{port}/phy_0/negotiated_logical_link_rate")]);
        if let Some((_, speed)) = rate.split_once("; ").filter(|(_, speed)| speed.ends_with("bps")) {
            return speed.to_owned();
        }
    }
    String::new()
}

/// From what is standard first, from what only some vendors say last.
fn wear_percent(root: &Value) -> Option<u16> {
    let standard = ["/nvme_smart_health_information_log/percentage_used", "/scsi_percentage_used_endurance_indicator"];
    let used = standard.iter().find_map(|path| number(root, path));
    let used = used.or_else(|| device_statistic(root, "Percentage Used Endurance Indicator"));
    let used = used.or_else(|| number(root, "/endurance_used/current_percent"));
    let used = used.or_else(|| {
        let left = attributes(root).find(|(name, _)| LIFE_LEFT_ATTRIBUTES.contains(name))?;
        100_u64.checked_sub(number(left.1, "/value")?)
    });
    used.and_then(|percent| u16::try_from(percent).ok())
}

fn written_bytes(root: &Value) -> Option<u64> {
    let units = number(root, "/nvme_smart_health_information_log/data_units_written");
    let of_nvme = units.and_then(|units| units.checked_mul(NVME_DATA_UNIT_BYTES));
    of_nvme.or_else(|| {
        let sectors = attributes(root).find(|(name, _)| *name == "Total_LBAs_Written")?;
        let sector_bytes = number(root, "/logical_block_size").unwrap_or(512);
        number(sectors.1, "/raw/value")?.checked_mul(sector_bytes)
    })
}

fn critical(root: &Value) -> Vec<String> {
    let bits = number(root, "/nvme_smart_health_information_log/critical_warning").unwrap_or(0);
    let known = CRITICAL_WARNINGS.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    let mut said: Vec<String> = known.map(|(_, meaning)| (*meaning).to_owned()).collect();
    if said.is_empty() && bits != 0 {
        said.push(format!("critical warning {bits:#x}"));
    }
    said
}

/// The vendor's attributes of a SATA drive, by name.
fn attributes(root: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let table = root.pointer("/ata_smart_attributes/table").and_then(Value::as_array);
    table.into_iter().flatten().filter_map(|entry| Some((entry.pointer("/name")?.as_str()?, entry)))
}

/// A value of a SATA drive's device statistics log that the drive calls valid.
fn device_statistic(root: &Value, name: &str) -> Option<u64> {
    let pages = root.pointer("/ata_device_statistics/pages")?.as_array()?;
    let mut entries = pages.iter().filter_map(|page| page.pointer("/table")?.as_array()).flatten();
    let entry = entries.find(|entry| entry.pointer("/name").and_then(Value::as_str) == Some(name))?;
    let valid = entry.pointer("/flags/valid").and_then(Value::as_bool).unwrap_or(true);
    number(entry, "/value").filter(|_| valid)
}

fn number(value: &Value, path: &str) -> Option<u64> {
    value.pointer(path)?.as_u64()
}

/// The first of these that is there, without the spaces around it.
fn text(value: &Value, paths: &[&str]) -> String {
    let found = paths.iter().find_map(|path| value.pointer(path)?.as_str());
    found.map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SATA: &[u8] = include_bytes!("composed/sata.json");
    const SAS: &[u8] = include_bytes!("composed/sas.json");
    const NVME: &[u8] = include_bytes!("composed/nvme.json");
    const NVME_FAILING: &[u8] = include_bytes!("composed/nvme-failing.json");
    const NO_SMART: &[u8] = include_bytes!("composed/virtio.json");

    // proves: P10
    #[test]
    fn a_sata_drive_says_what_it_is_and_how_worn() {
        let report = DriveReport::parse(SATA).unwrap();
        assert_eq!((report.model.as_str(), report.firmware.as_str()), ("INTEL SSDSC2KB480G8", "XCV10132"));
        assert_eq!((report.serial.as_str(), report.link_speed.as_str()), ("PHYF000000AA480BGN", "6.0 Gb/s"));
        assert_eq!((report.passed, report.wear_percent), (Some(true), Some(3)));
        assert_eq!((report.temperature_celsius, report.power_on_hours), (Some(27), Some(21_334)));
        assert_eq!(report.alert(), "");
    }

    // proves: P10
    #[test]
    fn a_sas_drive_says_what_it_is_and_how_worn() {
        let report = DriveReport::parse(SAS).unwrap();
        assert_eq!((report.manufacturer.as_str(), report.model.as_str()), ("SAMSUNG", "SAMSUNG MZILT960HBHQ0D3"));
        assert_eq!((report.firmware.as_str(), report.link_speed.as_str()), ("GXA0", "12 Gbps"));
        assert_eq!((report.passed, report.wear_percent), (Some(true), Some(11)));
        assert_eq!(report.power_on_hours, Some(26_195));
    }

    // proves: P10
    #[test]
    fn an_nvme_drive_says_what_it_is_and_how_much_was_written() {
        let report = DriveReport::parse(NVME).unwrap();
        assert_eq!((report.model.as_str(), report.firmware.as_str()), ("SAMSUNG MZQL2960HCJR-00A07", "GDC5602Q"));
        assert_eq!((report.passed, report.wear_percent), (Some(true), Some(2)));
        assert_eq!(report.written_bytes, Some(129_205_897 * 512_000));
        assert_eq!(report.alert(), "");
    }

    // proves: P10
    #[test]
    fn what_real_drives_answered_is_understood() {
        let known = DriveReport { passed: Some(true), ..DriveReport::default() };
        let sata = DriveReport {
            model: "Samsung SSD 860 EVO 500GB".to_owned(),
            serial: "S3YZNB0KB00864E".to_owned(),
            firmware: "RVT02B6Q".to_owned(),
            link_speed: "6.0 Gb/s".to_owned(),
            wear_percent: Some(19),
            temperature_celsius: Some(36),
            power_on_hours: Some(14_551),
            written_bytes: Some(64_777_770_148 * 512),
            ..known.clone()
        };
        assert_eq!(DriveReport::parse(include_bytes!("recorded/sata.json")), Ok(sata));
        let nvme = DriveReport {
            model: "Force MP510".to_owned(),
            serial: "yes".to_owned(),
            firmware: "ECFM12.3".to_owned(),
            wear_percent: Some(1),
            temperature_celsius: Some(38),
            power_on_hours: Some(6487),
            written_bytes: Some(16_093_122 * 512_000),
            ..known.clone()
        };
        assert_eq!(DriveReport::parse(include_bytes!("recorded/nvme.json")), Ok(nvme));
        let sas = DriveReport {
            manufacturer: "TOSHIBA".to_owned(),
            model: "TOSHIBA AL13SXB60EN".to_owned(),
            serial: "X".repeat(3),
            firmware: "5702".to_owned(),
            temperature_celsius: Some(41),
            power_on_hours: Some(64_579),
            ..known.clone()
        };
        assert_eq!(DriveReport::parse(include_bytes!("recorded/sas.json")), Ok(sas));
        let scsi_ssd = DriveReport {
            serial: "S6PPNJ0RB04XXX".to_owned(),
            wear_percent: Some(11),
            temperature_celsius: Some(21),
            power_on_hours: Some(26_195),
            ..known
        };
        assert_eq!(DriveReport::parse(include_bytes!("recorded/scsi-ssd.json")), Ok(scsi_ssd));
    }

    // proves: P10
    #[test]
    fn a_failing_drive_raises_an_alert_that_names_each_cause() {
        let report = DriveReport::parse(NVME_FAILING).unwrap();
        let alert = report.alert();
        for part in ["it is failing", "spare blocks", "reliability", "104 %"] {
            assert!(alert.contains(part), "{part}: {alert}");
        }
        let only_worn = DriveReport { wear_percent: Some(100), passed: Some(true), ..DriveReport::default() };
        assert!(only_worn.alert().contains("100 %"));
        assert_eq!(DriveReport { wear_percent: Some(99), passed: Some(true), ..DriveReport::default() }.alert(), "");
    }

    #[test]
    fn the_wear_of_an_older_sata_drive_is_what_its_vendor_counts_down() {
        let text = r#"{"smartctl": {"exit_status": 0}, "logical_block_size": 512, "ata_smart_attributes": {"table": [
            {"id": 9, "name": "Power_On_Hours", "value": 99, "raw": {"value": 1}},
            {"id": 177, "name": "Wear_Leveling_Count", "value": 88, "raw": {"value": 120}},
            {"id": 241, "name": "Total_LBAs_Written", "value": 99, "raw": {"value": 1000}}]}}"#;
        let report = DriveReport::parse(text.as_bytes()).unwrap();
        assert_eq!((report.wear_percent, report.written_bytes), (Some(12), Some(512_000)));
        assert_eq!(report.passed, None, "what it does not say is not made up");
    }

    #[test]
    fn a_device_without_smart_is_told_why_and_garbage_is_refused() {
        let error = DriveReport::parse(NO_SMART).unwrap_err();
        assert!(error.contains("Unable to detect device type"), "{error}");
        for end in 0..NVME.len() - 2 {
            assert!(DriveReport::parse(&NVME[..end]).is_err(), "cut after {end} bytes");
        }
        let odd = r#"{"smartctl": {"exit_status": 0}, "temperature": {"current": 99999999}, "model_name": 7,
            "endurance_used": {"current_percent": 70000}, "power_on_time": []}"#;
        assert_eq!(DriveReport::parse(odd.as_bytes()).unwrap(), DriveReport::default());
    }
}
