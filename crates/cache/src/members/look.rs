//! Nothing is written to a device of the pool after a pause before it was looked whose it is.

use hotset_block::Env;

use crate::members::ownership::Ownership;

/// Waits, after a time in which the daemon did not run, until it was looked at the marks: not for an SSD that does not answer, which
/// leaves ([`Ownership::holds_up_for`]).
pub(crate) async fn until_looked<E: Env>(env: &E, owner: &Ownership) {
    while owner.must_look(env.now(), env.real_now()) {
        owner.awaits_look(env.now());
        owner.look_wanted.wake_all();
        owner.looked.wait().await;
    }
}
