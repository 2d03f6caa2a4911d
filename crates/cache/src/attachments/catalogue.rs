//! The catalogue is changed: a member record, durable on the majority before the change takes effect.

use std::rc::Rc;

use hotset_block::Env;

use crate::error::Error;
use crate::format::catalogue::Catalogue;
use crate::format::record::RecordKind;
use crate::pool::PoolInner;

impl<E: Env> PoolInner<E> {
    /// Changes the catalogue; everything that was decided is in `change`. Returns when it is durable.
    pub(crate) async fn change_catalogue(self: &Rc<Self>, change: &dyn Fn(&mut Catalogue)) -> Result<(), Error> {
        let _one_at_a_time = self.members.one_change().await;
        let mut catalogue = self.catalogue.borrow().clone();
        change(&mut catalogue);
        self.members.write_record(RecordKind::Catalogue, catalogue.encode()).await?;
        *self.catalogue.borrow_mut() = catalogue;
        Ok(())
    }
}
