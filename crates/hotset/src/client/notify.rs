//! The `notify` verb: whether those who are to be told of events can be.

use hotset_api::{ApiError, ApiErrorKind, NoticeTest};
use hyper::Method;

use super::http::Client;
use super::print::print;
use crate::args::{NotifyVerb, Output};

/// # Errors
/// Also if a target did not take the notice.
pub(crate) fn run(client: &Client, output: Output, verb: &NotifyVerb) -> Result<(), ApiError> {
    let NotifyVerb::Test = verb;
    let test: NoticeTest = client.send(Method::POST, "/notices/test", &())?;
    print(output, &test, lines)?;
    let failed: Vec<&str> = test.targets.iter().filter(|told| !told.ok).map(|told| told.target.as_str()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let message = format!("{} did not take the notice", failed.join(" and "));
    Err(ApiError::new(ApiErrorKind::Unavailable, message)
        .with_hint("its answer is above; [notices] of hotset.toml says where it is"))
}

fn lines(test: &NoticeTest) -> String {
    let line = |told: &hotset_api::NoticeAnswer| {
        let how = if told.ok { "took it" } else { "FAILED" };
        format!("{} {}: {how}: {}\n", told.target, told.address, told.answer)
    };
    test.targets.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use hotset_api::NoticeAnswer;

    use super::*;

    #[test]
    fn each_target_has_a_line_with_what_it_answered() {
        let told = |ok, answer: &str| NoticeAnswer {
            target: "web hook".to_owned(),
            address: "https://a/".to_owned(),
            ok,
            answer: answer.to_owned(),
        };
        let test = NoticeTest { targets: vec![told(true, "200 OK"), told(false, "answered 500")] };
        assert_eq!(lines(&test), "web hook https://a/: took it: 200 OK\nweb hook https://a/: FAILED: answered 500\n");
    }
}
