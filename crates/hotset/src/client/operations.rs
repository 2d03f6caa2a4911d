//! The `operations` verb.

use hotset_api::{ApiError, Operation, OperationCancelled, OperationList, OperationState};

use super::table::Table;
use super::{Client, print};
use crate::args::{OperationsArguments, OperationsVerb, Output};
use crate::size::human;

pub(crate) fn run(client: &Client, output: Output, arguments: &OperationsArguments) -> Result<(), ApiError> {
    match arguments.verb {
        None => print(output, &client.get::<OperationList>("/operations")?, |list| table(&list.operations)),
        Some(OperationsVerb::Cancel { id }) => {
            let cancelled: OperationCancelled = client.delete(&format!("/operations/{id}"))?;
            print(output, &cancelled, |cancelled| match cancelled.changed {
                true => format!("Cancelled operation {id}\n"),
                false => format!("Operation {id} had ended before: {}\n", cancelled.operation.state.word()),
            })
        }
    }
}

fn table(operations: &[Operation]) -> String {
    if operations.is_empty() {
        return "No operations\n".to_owned();
    }
    let mut table = Table::new(&[">ID", "OPERATION", "SUBJECT", "STATE", ">DONE", ">OF", ">RATE", ">LEFT", "REASON"]);
    for operation in operations {
        let left = operation.eta_seconds.filter(|_| operation.state == OperationState::Running);
        table.row(vec![
            operation.id.to_string(),
            operation.kind.word().to_owned(),
            operation.subject.to_string(),
            operation.state.word().to_owned(),
            human(operation.done_bytes),
            human(operation.total_bytes),
            format!("{}/s", human(operation.rate_bytes_per_second)),
            left.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s")),
            operation.error.as_ref().map_or_else(String::new, ToString::to_string),
        ]);
    }
    table.render()
}
