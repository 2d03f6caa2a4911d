//! The `token` verbs.

use hotset_api::{ApiError, Deleted, TokenCreate, TokenCreated, TokenList};
use hyper::Method;

use super::http::Client;
use super::print::print;
use super::table::Table;
use crate::args::{Output, TokenVerb};
use hotset_cache::date_and_time;

pub(crate) fn run(client: &Client, output: Output, verb: &TokenVerb) -> Result<(), ApiError> {
    match verb {
        TokenVerb::Create { name, role } => {
            let request = TokenCreate { name: name.clone(), role: (*role).into() };
            let created: TokenCreated = client.send(Method::POST, "/tokens", &request)?;
            print(output, &created, |created| {
                format!(
                    "Token {} with the role {}; it is shown this once:\n{}\n",
                    created.name,
                    created.role.word(),
                    created.token
                )
            })
        }
        TokenVerb::List => print(output, &client.get::<TokenList>("/tokens")?, table),
        TokenVerb::Delete { name } => {
            let deleted: Deleted = client.delete(&format!("/tokens/{name}"))?;
            print(output, &deleted, |deleted| {
                format!("Deleted token {}: nobody gets in with it any more\n", deleted.deleted)
            })
        }
    }
}

fn table(list: &TokenList) -> String {
    if list.tokens.is_empty() {
        return "No tokens\n".to_owned();
    }
    let mut table = Table::new(&["TOKEN", "ROLE", "CREATED"]);
    for token in &list.tokens {
        let created = date_and_time(token.created_unix_ms / 1000);
        table.row(vec![token.name.clone(), token.role.word().to_owned(), created]);
    }
    table.render()
}
