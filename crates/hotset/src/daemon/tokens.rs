//! Bearer tokens: who may use the API over the network. Only hashes of them are kept.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotset_api::{ApiError, ApiErrorKind, Deleted, Role, Token, TokenCreate, TokenCreated, TokenList};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use tokio::sync::watch;

use super::state::StateDirectory;
use crate::clock::unix_ms;

/// Tokens at most.
const TOKENS_MAX: usize = 256;

/// Random bytes of a token: 256 bits cannot be guessed, so a plain hash is enough to keep them by.
const TOKEN_BYTES: usize = 32;

/// What a token starts with, so that it is recognized where it does not belong.
const TOKEN_PREFIX: &str = "hotset_";

const NAME_LENGTH_MAX: usize = 64;

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenRecord {
    name: String,
    role: Role,
    created_unix_ms: u64,
    /// SHA-256 of the whole token, 64 hexadecimal digits.
    sha256: String,
}

#[derive(Debug, Default)]
pub(crate) struct Tokens {
    records: Mutex<Vec<TokenRecord>>,
    /// Names of deleted tokens that the state directory may still have. Locked while that is written: who shows a token does not
    /// wait for it.
    unrecorded: Mutex<BTreeSet<String>>,
    deleted: watch::Sender<()>,
    /// Why the record cannot be read, if so: then nobody has a token, rather than anybody.
    unread: Mutex<Option<String>>,
}

/// Which token somebody showed. Another one of the same name is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    name: String,
    sha256: String,
}

impl Identity {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Tokens {
    /// Reads what is kept. Blocking.
    pub(crate) fn load(state: &StateDirectory) -> Self {
        let tokens = Self { unread: Mutex::new(Some(String::new())), ..Self::default() };
        tokens.read_again(state);
        tokens
    }

    /// Tries again to read what could not be read; answers why it still cannot. Blocking.
    pub(crate) fn read_again(&self, state: &StateDirectory) -> Option<String> {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        if unread.is_some() {
            *unread = match state.tokens() {
                Ok(records) => {
                    *self.records() = records;
                    None
                }
                Err(error) => Some(format!("{error}; nobody gets in with a token")),
            };
        }
        unread.clone()
    }

    fn check_read(&self) -> Result<(), ApiError> {
        match &*self.unread.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(why) => Err(ApiError::new(ApiErrorKind::Device, format!("the tokens cannot be changed: {why}"))),
        }
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn records(&self) -> MutexGuard<'_, Vec<TokenRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whole as the records are.
    fn unrecorded(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose token this is. Takes the same time whichever of the tokens it is, and if it is none.
    pub(crate) fn who(&self, token: &str) -> Option<(Identity, Role)> {
        let hash = hash(token);
        let mut found = None;
        for record in self.records().iter() {
            if bool::from(record.sha256.as_bytes().ct_eq(hash.as_bytes())) {
                let identity = Identity { name: record.name.clone(), sha256: record.sha256.clone() };
                found = Some((identity, record.role));
            }
        }
        found
    }

    /// Completes when the token is deleted.
    pub(crate) async fn is_deleted(&self, identity: &Identity) {
        let mut deleted = self.deleted.subscribe();
        while self.records().iter().any(|record| record.sha256 == identity.sha256) {
            if deleted.changed().await.is_err() {
                return;
            }
        }
    }

    pub(crate) fn list(&self) -> TokenList {
        let shown = |record: &TokenRecord| Token {
            name: record.name.clone(),
            role: record.role,
            created_unix_ms: record.created_unix_ms,
        };
        TokenList { tokens: self.records().iter().map(shown).collect() }
    }

    /// Makes a token. Blocking.
    pub(crate) fn create(&self, state: &StateDirectory, request: &TokenCreate) -> Result<TokenCreated, ApiError> {
        check_name(&request.name)?;
        self.check_read()?;
        let mut unrecorded = self.unrecorded();
        let mut changed = self.records().clone();
        if changed.iter().any(|record| record.name == request.name) {
            let message = format!("token {}: a token of this name exists already", request.name);
            return Err(
                ApiError::new(ApiErrorKind::Refused, message).with_hint("delete it first, or take another name")
            );
        }
        if changed.len() >= TOKENS_MAX {
            return Err(ApiError::new(ApiErrorKind::Full, format!("there are {TOKENS_MAX} tokens already")));
        }
        let token = new_token()?;
        let record = TokenRecord {
            name: request.name.clone(),
            role: request.role,
            created_unix_ms: unix_ms(),
            sha256: hash(&token),
        };
        changed.push(record);
        state.write_tokens(&changed).map_err(|error| not_kept(&error))?;
        unrecorded.clear();
        *self.records() = changed;
        tracing::info!(name = request.name, role = request.role.word(), "made a token");
        Ok(TokenCreated { name: request.name.clone(), role: request.role, token })
    }

    /// From this answer on nobody gets in with it. If it cannot be written, that holds while this daemon runs, and whoever deletes it
    /// again has it written. Blocking.
    pub(crate) fn delete(&self, state: &StateDirectory, name: &str) -> Result<Deleted, ApiError> {
        self.check_read()?;
        let mut unrecorded = self.unrecorded();
        let mut left = self.records().clone();
        let count = left.len();
        left.retain(|record| record.name != name);
        if left.len() == count && !unrecorded.contains(name) {
            return Err(ApiError::new(ApiErrorKind::NotFound, format!("token {name}: there is no such token"))
                .with_hint("`hotset token list` shows all"));
        }
        self.records().clone_from(&left);
        self.deleted.send_replace(());
        tracing::info!(name, "deleted a token");
        if let Err(error) = state.write_tokens(&left) {
            unrecorded.insert(name.to_owned());
            return Err(not_on_record(name, &error));
        }
        unrecorded.clear();
        Ok(Deleted { deleted: name.to_owned() })
    }
}

fn check_name(name: &str) -> Result<(), ApiError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=NAME_LENGTH_MAX).contains(&name.len()) && name.chars().all(allowed) {
        return Ok(());
    }
    let message = format!("token name {name:?}: 1 to {NAME_LENGTH_MAX} characters of A-Z a-z 0-9 - _ .");
    Err(ApiError::new(ApiErrorKind::Invalid, message))
}

fn new_token() -> Result<String, ApiError> {
    let mut bytes = [0; TOKEN_BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| ApiError::new(ApiErrorKind::Internal, "the kernel gives no random bytes"))?;
    Ok(format!("{TOKEN_PREFIX}{}", hexadecimal(&bytes)))
}

fn hash(token: &str) -> String {
    hexadecimal(digest(&SHA256, token.as_bytes()).as_ref())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn not_kept(error: &std::io::Error) -> ApiError {
    ApiError::new(ApiErrorKind::Device, format!("the tokens cannot be kept in the state directory: {error}"))
}

fn not_on_record(name: &str, error: &std::io::Error) -> ApiError {
    let message = format!(
        "token {name}: nobody gets in with it while this daemon runs, but the state directory still has it, and a restart would \
         let it in again: {error}"
    );
    let hint = format!("make room there, then `hotset token delete {name}` again");
    ApiError::new(ApiErrorKind::Device, message).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures_util::FutureExt;

    use super::*;

    fn request(name: &str, role: Role) -> TokenCreate {
        TokenCreate { name: name.to_owned(), role }
    }

    #[test]
    fn a_token_is_known_by_its_hash_until_it_is_deleted_also_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        let tokens = Tokens::load(&state);
        let made = tokens.create(&state, &request("grafana", Role::View)).unwrap();
        let other = tokens.create(&state, &request("me", Role::Admin)).unwrap();
        assert_ne!(made.token, other.token);
        let kept = fs::read_to_string(directory.path().join("tokens.json")).unwrap();
        assert!(!kept.contains(made.token.trim_start_matches(TOKEN_PREFIX)), "only the hash is kept");
        let again = Tokens::load(&state);
        let named = |token: &str| again.who(token).map(|(identity, role)| (identity.name().to_owned(), role));
        assert_eq!(named(&made.token), Some(("grafana".to_owned(), Role::View)));
        assert_eq!(named(&other.token), Some(("me".to_owned(), Role::Admin)));
        assert_eq!(again.who(&made.token[..made.token.len() - 1]), None);
        assert_eq!(again.who(""), None);
        again.delete(&state, "grafana").unwrap();
        assert_eq!(again.who(&made.token), None);
        assert_eq!(again.delete(&state, "grafana").unwrap_err().kind, ApiErrorKind::NotFound);
    }

    #[test]
    fn a_token_is_revoked_at_once_when_that_cannot_be_written_and_for_good_when_it_is_deleted_again() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        let tokens = Tokens::load(&state);
        let leaked = tokens.create(&state, &request("leaked", Role::Admin)).unwrap().token;
        let other = tokens.create(&state, &request("other", Role::View)).unwrap().token;
        let (identity, _) = tokens.who(&leaked).unwrap();
        let mut follows = Box::pin(tokens.is_deleted(&identity));
        assert_eq!((&mut follows).now_or_never(), None);
        // A folder in its place: the file cannot be written.
        let (file, aside) = (directory.path().join("tokens.json"), directory.path().join("aside"));
        fs::rename(&file, &aside).unwrap();
        fs::create_dir(&file).unwrap();
        for _ in 0..2 {
            let error = tokens.delete(&state, "leaked").unwrap_err();
            assert_eq!(error.kind, ApiErrorKind::Device, "{error}");
            assert!(error.to_string().contains("`hotset token delete leaked` again"), "{error}");
            assert_eq!(tokens.who(&leaked), None);
        }
        assert_eq!((&mut follows).now_or_never(), Some(()), "who follows events with it is cut off");
        fs::remove_dir(&file).unwrap();
        fs::rename(&aside, &file).unwrap();
        assert!(Tokens::load(&state).who(&leaked).is_some(), "the file has it still");
        tokens.delete(&state, "leaked").unwrap();
        let again = Tokens::load(&state);
        assert_eq!((again.who(&leaked), again.who(&other).is_some()), (None, true));
        assert_eq!(tokens.delete(&state, "leaked").unwrap_err().kind, ApiErrorKind::NotFound);
    }

    #[test]
    fn names_are_checked_and_taken_once() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        let tokens = Tokens::load(&state);
        for wrong in ["", "a b", "a/b", "é", &"x".repeat(65)] {
            let error = tokens.create(&state, &request(wrong, Role::View)).unwrap_err();
            assert_eq!(error.kind, ApiErrorKind::Invalid, "{wrong}");
        }
        tokens.create(&state, &request("a", Role::View)).unwrap();
        let error = tokens.create(&state, &request("a", Role::Admin)).unwrap_err();
        assert_eq!(error.kind, ApiErrorKind::Refused);
    }
}
