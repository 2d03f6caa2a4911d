//! The `token` verbs.

use hotset_api::{ApiError, Deleted, Token, TokenCreate, TokenCreated, TokenList};
use hyper::Method;

use super::http::Client;
use super::print::print;
use super::table::{Cell, Column, Listing};
use crate::args::{Output, TokenVerb};
use hotset_cache::date_and_time;

pub(crate) fn run(client: &Client, output: Output, columns: Vec<String>, verb: TokenVerb) -> Result<(), ApiError> {
    match verb {
        TokenVerb::Create { name, role } => {
            let request = TokenCreate { name, role: role.into() };
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
        TokenVerb::List(table) => {
            let list: TokenList = client.get("/tokens")?;
            let text = Listing { columns, table }.render(COLUMNS, &list.tokens, "No tokens\n")?;
            print(output, &list, |_| text)
        }
        TokenVerb::Delete { name } => {
            let deleted: Deleted = client.delete(&format!("/tokens/{name}"))?;
            print(output, &deleted, |deleted| {
                format!("Deleted token {}: nobody gets in with it any more\n", deleted.deleted)
            })
        }
    }
}

pub(super) const COLUMNS: &[Column<Token>] = &[
    Column::new("TOKEN", |token| Cell::Text(token.name.clone())),
    Column::new("ROLE", |token| Cell::Text(token.role.word().to_owned())),
    Column::new("CREATED", |token| Cell::Text(date_and_time(token.created_unix_ms / 1000))),
];
