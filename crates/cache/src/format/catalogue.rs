//! The catalogue: which volumes the pool caches, under which attachment ids, and how their backing devices are
//! recognised. Ids that are not in the newest catalogue are dead.

use std::collections::BTreeSet;

use hotset_block::DeviceIdentity;

use crate::config::{Share, VolumeSettings, VolumeSpec, WriteMode, limits};

use super::codec::{BrokenRule, Corrupt, Reader, Writer, assert_sound};

/// The longest identity text of a device.
const IDENTITY_BYTES_MAX: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Catalogue {
    /// The next attachment id. Ids are never reused.
    pub(crate) next_attachment: u64,
    pub(crate) volumes: Vec<CataloguedVolume>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CataloguedVolume {
    /// New at every enable-cache.
    pub(crate) attachment: u64,
    pub(crate) spec: VolumeSpec,
    pub(crate) backing: BackingIdentity,
}

/// What a backing device was when it was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackingIdentity {
    pub(crate) size_bytes: u64,
    pub(crate) device: DeviceIdentity,
    /// `device.change_mark` was read at a clean stop and may be compared.
    pub(crate) mark_is_final: bool,
    pub(crate) fingerprints: Vec<Fingerprint>,
}

/// The checksum of one page of a backing device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) page: u64,
    pub(crate) checksum: u64,
    /// A host may have written to it since: it is not judged.
    pub(crate) unsettled: bool,
}

impl Catalogue {
    fn broken_rule(&self) -> BrokenRule {
        if self.volumes.len() > limits::VOLUMES_MAX {
            return Some("it has more volumes than allowed");
        }
        let (mut attachments, mut names) = (BTreeSet::new(), BTreeSet::new());
        let is_new = |volume: &CataloguedVolume| {
            attachments.insert(volume.attachment) && names.insert(volume.spec.name.as_str().to_owned())
        };
        if !self.volumes.iter().all(is_new) {
            return Some("a volume or an attachment id is in it twice");
        }
        if self.volumes.iter().any(|volume| volume.attachment >= self.next_attachment) {
            return Some("an attachment id is higher than the next one");
        }
        self.volumes.iter().find_map(CataloguedVolume::broken_rule)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        assert_sound("catalogue", self.broken_rule());
        let mut writer = Writer::new();
        writer
            .counter(self.next_attachment)
            .u16(u16::try_from(self.volumes.len()).expect("a pool has at most VOLUMES_MAX volumes"));
        for volume in &self.volumes {
            writer.u64(volume.attachment).text(volume.spec.name.as_str()).text(&volume.spec.backing);
            encode_settings(&mut writer, &volume.spec.settings);
            encode_backing(&mut writer, &volume.backing);
        }
        self.encode_caching(&mut writer);
        writer.into_bytes()
    }

    /// Write modes and read caching of all volumes, behind them all, then their shares, then which are cached in memory, then which
    /// are read ahead; what comes last is left out where every volume has the defaults.
    fn encode_caching(&self, writer: &mut Writer) {
        let plain = VolumeSettings::default();
        let settings = || self.volumes.iter().map(|volume| &volume.spec.settings);
        let shares = |volume: &VolumeSettings| [volume.dirty_cap, volume.cache_min, volume.cache_max];
        let all_ahead = settings().all(|volume| volume.read_ahead);
        let all_in_memory = all_ahead && settings().all(|volume| volume.memory_cache);
        let without_shares = all_in_memory && settings().all(|volume| shares(volume) == [None; 3]);
        let is_plain =
            |volume: &VolumeSettings| (volume.write_mode, volume.read_cache) == (plain.write_mode, plain.read_cache);
        if without_shares && settings().all(is_plain) {
            return;
        }
        for volume in settings() {
            writer.text(volume.write_mode.word()).flag(volume.read_cache);
        }
        if without_shares {
            return;
        }
        for share in settings().flat_map(shares) {
            let (kind, value) = match share {
                None => (0, 0),
                Some(Share::Bytes(bytes)) => (1, bytes),
                Some(Share::Percent(percent)) => (2, u64::from(percent)),
            };
            writer.u8(kind).u64(value);
        }
        if all_in_memory {
            return;
        }
        for volume in settings() {
            writer.flag(volume.memory_cache);
        }
        if all_ahead {
            return;
        }
        for volume in settings() {
            writer.flag(volume.read_ahead);
        }
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, Corrupt> {
        let mut reader = Reader::new(payload, "catalogue");
        let next_attachment = reader.counter()?;
        let count = usize::from(reader.u16()?);
        reader.require(count <= limits::VOLUMES_MAX, "it has more volumes than allowed")?;
        let mut volumes: Vec<CataloguedVolume> = Vec::new();
        for _ in 0..count {
            volumes.push(decode_volume(&mut reader)?);
        }
        if !reader.is_at_end() {
            for volume in &mut volumes {
                volume.spec.settings.write_mode = reader.parse(32)?;
                volume.spec.settings.read_cache = reader.flag()?;
            }
        }
        if !reader.is_at_end() {
            for volume in &mut volumes {
                let settings = &mut volume.spec.settings;
                settings.dirty_cap = decode_share(&mut reader)?;
                settings.cache_min = decode_share(&mut reader)?;
                settings.cache_max = decode_share(&mut reader)?;
                settings.check().map_err(|error| reader.corrupt(&error.to_string()))?;
            }
        }
        if !reader.is_at_end() {
            for volume in &mut volumes {
                volume.spec.settings.memory_cache = reader.flag()?;
            }
        }
        if !reader.is_at_end() {
            for volume in &mut volumes {
                volume.spec.settings.read_ahead = reader.flag()?;
            }
        }
        reader.end()?;
        let decoded = Self { next_attachment, volumes };
        reader.require_sound(decoded.broken_rule())?;
        Ok(decoded)
    }
}

impl CataloguedVolume {
    fn broken_rule(&self) -> BrokenRule {
        if self.spec.backing.len() > limits::BACKING_BYTES_MAX {
            return Some("the name of a backing device is longer than allowed");
        }
        if !matches!(self.spec.settings.logical_block_bytes, 512 | 4096) {
            return Some("a logical block is neither 512 nor 4096 bytes");
        }
        if self.backing.fingerprints.len() > limits::FINGERPRINTS {
            return Some("a backing device has more fingerprints than allowed");
        }
        self.spec.settings.check().is_err().then_some("a share of a volume is not one that it may have")
    }
}

fn decode_share(reader: &mut Reader<'_>) -> Result<Option<Share>, Corrupt> {
    let (kind, value) = (reader.u8()?, reader.u64()?);
    match (kind, u8::try_from(value)) {
        (0, Ok(0)) => Ok(None),
        (1, _) => Ok(Some(Share::Bytes(value))),
        (2, Ok(percent)) => Ok(Some(Share::Percent(percent))),
        (_, _) => Err(reader.corrupt("a share of a volume is neither bytes nor percent")),
    }
}

fn decode_volume(reader: &mut Reader<'_>) -> Result<CataloguedVolume, Corrupt> {
    let attachment = reader.u64()?;
    let name = reader.parse(limits::VOLUME_NAME_BYTES_MAX)?;
    let backing = reader.text(limits::BACKING_BYTES_MAX)?.to_owned();
    let settings = decode_settings(reader)?;
    let spec = VolumeSpec { name, backing, settings };
    Ok(CataloguedVolume { attachment, spec, backing: decode_backing(reader)? })
}

fn encode_settings(writer: &mut Writer, settings: &VolumeSettings) {
    writer.u32(settings.logical_block_bytes).flag(settings.read_only);
    writer.option_u64(settings.read_cutoff_bytes).option_u64(settings.write_cutoff_bytes);
}

fn decode_settings(reader: &mut Reader<'_>) -> Result<VolumeSettings, Corrupt> {
    let logical_block_bytes = reader.u32()?;
    reader.require(matches!(logical_block_bytes, 512 | 4096), "a logical block is neither 512 nor 4096 bytes")?;
    Ok(VolumeSettings {
        logical_block_bytes,
        read_only: reader.flag()?,
        read_cutoff_bytes: reader.option_u64()?,
        write_cutoff_bytes: reader.option_u64()?,
        write_mode: WriteMode::WriteBack,
        ..VolumeSettings::default()
    })
}

fn encode_backing(writer: &mut Writer, backing: &BackingIdentity) {
    let clip = |text: &str| text.chars().take(IDENTITY_BYTES_MAX / 4).collect::<String>();
    writer.u64(backing.size_bytes).text(&clip(&backing.device.id)).text(&clip(&backing.device.parent));
    writer.option_u64(backing.device.change_mark).u128(backing.device.boot).flag(backing.mark_is_final);
    writer.u16(u16::try_from(backing.fingerprints.len()).expect("an identity has fewer than 2^16 fingerprints"));
    for fingerprint in &backing.fingerprints {
        writer.u64(fingerprint.page).u64(fingerprint.checksum).flag(fingerprint.unsettled);
    }
}

fn decode_backing(reader: &mut Reader<'_>) -> Result<BackingIdentity, Corrupt> {
    let size_bytes = reader.u64()?;
    let id = reader.text(IDENTITY_BYTES_MAX)?.to_owned();
    let parent = reader.text(IDENTITY_BYTES_MAX)?.to_owned();
    let (change_mark, boot) = (reader.option_u64()?, reader.u128()?);
    let mark_is_final = reader.flag()?;
    let count = usize::from(reader.u16()?);
    reader.require(count <= limits::FINGERPRINTS, "a backing device has more fingerprints than allowed")?;
    let mut fingerprints = Vec::new();
    for _ in 0..count {
        let (page, checksum, unsettled) = (reader.u64()?, reader.u64()?, reader.flag()?);
        fingerprints.push(Fingerprint { page, checksum, unsettled });
    }
    let device = DeviceIdentity { id, parent, change_mark, boot };
    Ok(BackingIdentity { size_bytes, device, mark_is_final, fingerprints })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn volume(attachment: u64, name: &str) -> CataloguedVolume {
        let device = DeviceIdentity { id: "fs:1".into(), parent: "sda".into(), change_mark: Some(9), boot: 0 };
        let fingerprints = vec![Fingerprint { page: 0, checksum: 1, unsettled: true }];
        CataloguedVolume {
            attachment,
            spec: VolumeSpec {
                name: name.parse().expect("a valid value of the test"),
                backing: "/srv/disk.img".into(),
                settings: VolumeSettings::default(),
            },
            backing: BackingIdentity { size_bytes: 1 << 20, device, mark_is_final: true, fingerprints },
        }
    }

    #[test]
    fn the_catalogue_survives_the_round_trip() {
        let catalogue = Catalogue { next_attachment: 9, volumes: vec![volume(3, "a"), volume(8, "b")] };
        assert_eq!(Catalogue::decode(&catalogue.encode()), Ok(catalogue));
    }

    #[test]
    fn write_modes_and_read_caching_survive_the_round_trip() {
        let mut catalogue = Catalogue { next_attachment: 9, volumes: vec![volume(3, "a"), volume(8, "b")] };
        let defaults = catalogue.encode();
        catalogue.volumes[1].spec.settings.write_mode = WriteMode::WriteThrough;
        catalogue.volumes[0].spec.settings.read_cache = false;
        let bytes = catalogue.encode();
        assert!(bytes.starts_with(&defaults), "what was there before stays where it was");
        assert_eq!(Catalogue::decode(&bytes), Ok(catalogue));
    }

    #[test]
    fn shares_survive_the_round_trip_and_stand_behind_what_was_there_before() {
        let mut catalogue = Catalogue { next_attachment: 9, volumes: vec![volume(3, "a"), volume(8, "b")] };
        catalogue.volumes[0].spec.settings.read_cache = false;
        let before = catalogue.encode();
        let settings = &mut catalogue.volumes[1].spec.settings;
        settings.dirty_cap = Some(Share::Percent(10));
        (settings.cache_min, settings.cache_max) = (Some(Share::Bytes(1 << 30)), Some(Share::Percent(50)));
        let bytes = catalogue.encode();
        assert!(bytes.starts_with(&before));
        assert_eq!(Catalogue::decode(&bytes), Ok(catalogue.clone()));
        for (memory_cache, read_ahead) in [(false, true), (false, false)] {
            let before = catalogue.encode();
            let settings = &mut catalogue.volumes[0].spec.settings;
            (settings.memory_cache, settings.read_ahead) = (memory_cache, read_ahead);
            let bytes = catalogue.encode();
            assert!(bytes.starts_with(&before) && bytes.len() > before.len());
            assert_eq!(Catalogue::decode(&bytes), Ok(catalogue.clone()));
        }
    }

    #[test]
    fn ids_and_names_are_unique_and_below_the_next_id() {
        let catalogue = Catalogue { next_attachment: 9, volumes: vec![volume(3, "aa"), volume(8, "bb")] };
        let decoded = |from: &[u8], to: &[u8]| {
            let mut bytes = catalogue.encode();
            let place = bytes.windows(from.len()).position(|bytes| bytes == from).expect("it is in the catalogue");
            bytes[place..place + to.len()].copy_from_slice(to);
            Catalogue::decode(&bytes)
        };
        assert!(decoded(b"bb", b"cc").is_ok());
        assert!(decoded(b"bb", b"aa").is_err());
        let id = |id: u64| id.to_le_bytes();
        assert!(decoded(&id(8), &id(7)).is_ok());
        assert!(decoded(&id(8), &id(3)).is_err() && decoded(&id(9), &id(8)).is_err());
    }

    fn encode(volumes: Vec<CataloguedVolume>) {
        Catalogue { next_attachment: 5, volumes }.encode();
    }

    #[test]
    #[should_panic(expected = "a volume or an attachment id is in it twice")]
    fn an_attachment_id_is_not_written_twice() {
        encode(vec![volume(3, "a"), volume(3, "b")]);
    }

    #[test]
    #[should_panic(expected = "a volume or an attachment id is in it twice")]
    fn a_name_is_not_written_twice() {
        encode(vec![volume(3, "a"), volume(4, "a")]);
    }

    #[test]
    #[should_panic(expected = "an attachment id is higher than the next one")]
    fn an_attachment_id_that_may_be_used_again_is_not_written() {
        encode(vec![volume(5, "a")]);
    }

    #[test]
    #[should_panic(expected = "a share of a volume is not one that it may have")]
    fn a_share_above_the_whole_is_not_written() {
        let mut greedy = volume(3, "a");
        greedy.spec.settings.dirty_cap = Some(Share::Percent(101));
        encode(vec![greedy]);
    }

    #[test]
    #[should_panic(expected = "more fingerprints than allowed")]
    fn more_fingerprints_than_are_read_again_are_not_written() {
        let mut volume = volume(3, "a");
        volume.backing.fingerprints = vec![volume.backing.fingerprints[0]; limits::FINGERPRINTS + 1];
        encode(vec![volume]);
    }
}
