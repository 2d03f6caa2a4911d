//! A pool is made. The superblocks come last, so that a creation that was cut off leaves no half pool behind.

use std::rc::Rc;

use hotset_block::{Device, Env};

use crate::clean::slot_ssd::SlotSsd;
use crate::error::{Error, ErrorKind};
use crate::format::layout::{Layout, STATE_BYTES, segment_bytes_for};
use crate::format::members::{MembersRecord, Written};
use crate::format::record::RecordKind;
use crate::format::rows::Rows;
use crate::format::superblock::Superblock;
use crate::log::Known;
use crate::members::label::Named;
use crate::members::newcomer::{new_member, random_uuid};
use crate::members::newest::Records;
use crate::members::owner::{Admitted, refuse_living};
use crate::members::ssd::not_made;
use crate::members::superblocks::erase_devices;
use crate::pool::inner::PoolInner;
use crate::pool::open::Parts;
use crate::pool::plan::{PoolSpec, plan};

/// See [`crate::Pool::create_as`].
pub(crate) async fn create_as<E: Env>(
    uuid: u128,
    env: E,
    spec: PoolSpec,
    ssds: Vec<Named<E::Device>>,
    state: E::Device,
) -> Result<Rc<PoolInner<E>>, Error> {
    let sizes: Vec<u64> = ssds.iter().map(|ssd| ssd.device.info().size_bytes).collect();
    plan(&spec, &sizes)?;
    check_state_size::<E>(&state)?;
    refuse_living(&env, &ssds).await?;
    let smallest = sizes.iter().min().copied().expect("a planned pool has an SSD");
    let segment_bytes = segment_bytes_for(spec.settings.block_bytes, smallest);
    let mut parts = Parts {
        uuid,
        ssds: Vec::new(),
        absent: Vec::new(),
        spares: Vec::new(),
        state: Some(state),
        records: Records::first(first_members(&spec)),
        entry: Admitted::none(),
        env,
    };
    for named in ssds {
        let info = named.device.info();
        let layout = Layout::new(info.size_bytes, info.logical_block_bytes, spec.settings.block_bytes, segment_bytes)?;
        let superblock = Superblock {
            pool_uuid: uuid,
            ssd_uuid: random_uuid(&parts.env),
            pool_name: spec.name.clone(),
            kind: spec.kind,
            checksums: spec.settings.checksums,
            spare: false,
            layout,
        };
        parts.records.members.value.ssds.push(new_member(
            &parts.env,
            &named.path,
            superblock.ssd_uuid,
            superblock.layout.ssd_bytes,
        ));
        parts.ssds.push((named, superblock));
    }
    let superblocks: Vec<Superblock> = parts.ssds.iter().map(|(_, superblock)| superblock.clone()).collect();
    let pool = parts.assemble();
    if let Some(log) = &pool.log {
        log.set_known(Known::Yes);
    }
    pool.members.claim(&Admitted::none()).await?;
    pool.watch();
    let fresh: Vec<Rc<SlotSsd<E>>> = pool.clean.ssds().iter().cloned().collect();
    pool.start_cold(&fresh).await;
    pool.write_first_records().await?;
    let devices: Vec<_> = pool.members.ssds().filter_map(|ssd| ssd.device().ok()).collect();
    let begun = async {
        pool.write_superblocks(&superblocks).await?;
        pool.begin_session().await
    };
    if let Err(error) = begun.await {
        erase_devices(&pool.env, &devices).await;
        return Err(error);
    }
    pool.serve();
    Ok(pool)
}

fn first_members(spec: &PoolSpec) -> MembersRecord {
    MembersRecord {
        name: spec.name.clone(),
        kind: spec.kind,
        settings: spec.settings,
        epoch: 1,
        session: 0,
        clean: false,
        ssds: Vec::new(),
        spares: Vec::new(),
        written: Written::default(),
    }
}

fn check_state_size<E: Env>(state: &E::Device) -> Result<(), Error> {
    let size = state.info().size_bytes;
    if size >= STATE_BYTES {
        return Ok(());
    }
    let message = format!("the pool's member file in the state directory has {size} bytes instead of {STATE_BYTES}");
    Err(Error::new(ErrorKind::Corrupt, message))
}

impl<E: Env> PoolInner<E> {
    async fn write_first_records(self: &Rc<Self>) -> Result<(), Error> {
        {
            // An SSD may be leaving already.
            let _one_at_a_time = self.members.one_change().await;
            self.members.write_record(RecordKind::Rows, Rows::default().encode()).await?;
        }
        self.attachments.record_again().await?;
        self.members.change_record(&|_| {}).await
    }

    /// Both copies on every SSD, one after the other: never both in flight.
    async fn write_superblocks(self: &Rc<Self>, superblocks: &[Superblock]) -> Result<(), Error> {
        for (ssd, superblock) in self.members.ssds().zip(superblocks) {
            ssd.write_superblock(superblock).await.map_err(|fault| not_made(ssd, &fault))?;
        }
        Ok(())
    }
}
